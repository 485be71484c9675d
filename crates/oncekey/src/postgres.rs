//! The shared store, opened in one step. What it promises and when is told in `oncekey-store-postgres`.
//!
//! # Transactional mode
//!
//! Business rows in the same database, and the record: committed together, or not at all. With it an operation has one effect and
//! one answer whatever crashes (`exactly_once`), one commit a request instead of two, and nothing is unknown: what isn't committed
//! didn't happen.
//!
#![cfg_attr(feature = "tower", doc = "```no_run")]
#![cfg_attr(not(feature = "tower"), doc = "```ignore")]
//! use std::sync::Arc;
//!
//! use axum::{Router, http::StatusCode, routing::post};
//! use oncekey::postgres::{PgTransaction, PgTransactions, TransactionOptions};
//! use oncekey::{Oncekey, Options};
//!
//! async fn place(tx: PgTransaction, order: String) -> Result<(StatusCode, String), StatusCode> {
//!     let placed = tx.query_one("INSERT INTO orders (content) VALUES ($1) RETURNING id", &[&order]).await;
//!     let id: i64 = placed.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?.get(0);
//!     Ok((StatusCode::CREATED, format!("order {id}\n")))
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let store = oncekey::postgres::open("postgres://app@db.internal/orders?sslmode=verify-full").await?;
//! let transactions = PgTransactions::open(&store, 10, TransactionOptions::default()).await?;
//! let options = Options { transactions: Some(Arc::new(transactions)), ..Options::default() };
//! let oncekey = Oncekey::start(store, options).await?;
//! let app: Router = Router::new().route("/orders", post(place)).layer(oncekey.layer());
//! # Ok(())
//! # }
//! ```
//!
//! With a pool of your own: `PgTransactions::with_pool`. With sqlx (feature `sqlx`) it is `SqlxTransactions::with_pool` and the
//! extractor `SqlxTransaction`, on which `sqlx::query("…").execute(&mut *tx)` runs. Without axum: `PgTransaction::of` and
//! `SqlxTransaction::of` a request's extensions.
//!
//! - There is no `COMMIT` to call: a 2xx or 3xx commits, another 4xx is recorded without the rows, and a 5xx, what invites a retry
//!   (429, say) and a panic leave nothing, so that a retry runs again.
//! - A failure to serialize and a deadlock run the handler again, whatever it answered. So it should do nothing outside of its
//!   transaction.
//! - A duplicate of a running request waits without a connection. Another request waits for one of the pool, as long as
//!   `TransactionOptions::wait`.
//! - A handler that sends `COMMIT` or `ROLLBACK` by itself is found out; its operation is `unknown`.
//!
//! # Recovery points
//!
//! A handler that calls another service can't be one transaction. `PgSteps` lets it save what it has done, so that its next
//! execution goes on from there, and gives it keys for its calls that stay the same; `PgRecoveryPoints` opens them.

use std::sync::Arc;

use oncekey_store::StoreError;
pub use oncekey_store_postgres::{
    InvalidUrl, Migrated, PostgresOptions, PostgresStore, SchemaError, migrate, migration_sql,
};
#[cfg(feature = "tower")]
pub use oncekey_store_postgres::{
    Isolation, NoTransaction, PgRecoveryPoints, PgSavepoint, PgSteps, PgStepsError, PgTransaction, PgTransactionError,
    PgTransactions, TransactionOptions,
};
#[cfg(feature = "sqlx")]
pub use oncekey_store_postgres::{SqlxConnection, SqlxTransaction, SqlxTransactions};

/// Opens the database that a URL names (`postgres://USER@HOST/DATABASE?sslmode=verify-full`), and creates the tables or brings
/// them up to date first. Needs a Tokio runtime, on which the store keeps its tasks.
pub async fn open(url: &str) -> Result<Arc<PostgresStore>, StoreError> {
    let options = PostgresOptions::from_url(url).map_err(|error| StoreError::Misconfigured(error.into()))?;
    migrate(&options).await?;
    Ok(Arc::new(PostgresStore::open(options).await?))
}
