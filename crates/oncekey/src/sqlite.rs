//! The embedded store, opened in one step. What it promises and where is told in `oncekey-store-sqlite`.
//!
//! # Transactional mode
//!
//! Business rows in the same file, and the record: committed together, or not at all. With it an operation has one effect and
//! one answer whatever crashes (`exactly_once`), and nothing is ever unknown: what isn't committed didn't happen.
//!
#![cfg_attr(feature = "tower", doc = "```no_run")]
#![cfg_attr(not(feature = "tower"), doc = "```ignore")]
//! use axum::{Router, http::StatusCode, routing::post};
//! use oncekey::sqlite::{SqliteTransaction, rusqlite};
//! use oncekey::{Oncekey, Options};
//!
//! async fn place(transaction: SqliteTransaction, order: String) -> axum::response::Response {
//!     // Here is time for what takes long. The work that is handed over should take milliseconds: all writing waits for it.
//!     transaction.run(move |connection| {
//!         connection.execute("INSERT INTO orders (content) VALUES (?1)", [order])?;
//!         let number = connection.last_insert_rowid();
//!         Ok::<_, rusqlite::Error>((StatusCode::CREATED, format!("order {number}\n")))
//!     })
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let store = oncekey::sqlite::open("orders.db")?;
//! store.make_tables("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, content TEXT NOT NULL) STRICT").await?;
//! let options = Options { transactions: Some(store.clone()), ..Options::default() };
//! let oncekey = Oncekey::start(store, options).await?;
//! let app: Router = Router::new().route("/orders", post(place)).layer(oncekey.layer());
//! # Ok(())
//! # }
//! ```
//!
//! Without axum: `SqliteTransaction::of` the request's extensions, and `answer`.
//!
//! - An error of the work is logged and answered with 500; it, a panic, any 5xx and what invites a retry (429, say) leave
//!   nothing, and a retry runs again. Another 4xx is recorded without the rows.
//! - The answer's head is the work's, too: what a layer between oncekey and the handler adds to the answer that the handler returned is
//!   lost. Put such layers around oncekey.
//! - The work can do nothing to its connection but read and write rows; see [`SqliteTransaction`]. `query` of [`SqliteStore`] reads
//!   outside of transactions.

use std::path::PathBuf;
use std::sync::Arc;

use oncekey_store::{StoreError, SystemClock};
pub use oncekey_store_sqlite::{
    Migrated, NoTransaction, SchemaError, SqliteOptions, SqliteStore, SqliteTransaction, migrate, rusqlite,
};

/// Opens the database at `path`, and creates it or brings its schema up to date first. Blocks meanwhile. Processes of one host
/// may share it.
pub fn open(path: impl Into<PathBuf>) -> Result<Arc<SqliteStore>, StoreError> {
    let options = SqliteOptions::new(path);
    migrate(&options)?;
    Ok(Arc::new(SqliteStore::open(options, Arc::new(SystemClock))?))
}
