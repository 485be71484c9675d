//! The embedded store of oncekey: SQLite with one writer thread that commits in batches.
//!
//! A record is a row; what a write makes of it is decided by `oncekey_store::change` between a read and a write in one
//! transaction. Several processes may share a database on one host: each sees what the others committed.
//!
//! The one decision: a single thread writes, and everything that waits when a commit is done becomes the next
//! transaction. A commit that is safe from a power loss costs an fsync of some milliseconds however much is in it, so a
//! busy store pays it once for hundreds of claims. The price is that a lone claim pays it whole, and that a batch is as
//! slow as its largest body.
//!
//! ```no_run
//! use std::sync::Arc;
//! use oncekey_store::SystemClock;
//! use oncekey_store_sqlite::{SqliteOptions, SqliteStore, migrate};
//!
//! let options = SqliteOptions::new("oncekey.db");
//! migrate(&options)?;
//! let store = SqliteStore::open(options, Arc::new(SystemClock))?;
//! # Ok::<(), oncekey_store::StoreError>(())
//! ```
//!
//! Caveats:
//!
//! - The class is `at_most_once` on a local disk only; on overlayfs, tmpfs or a network file system it is `best_effort`,
//!   and [`promise`](oncekey_store::Store::promise) says so (G5).
//! - The database never shrinks; the space of swept records is used again.
//! - A listing filtered by scope, key or route reads all records that are newer than its last.
//! - Opening, migrating and dropping block.

mod audit;
mod claims;
mod config;
mod connection;
mod error;
mod filesystem;
mod gauges;
mod guard;
mod handle;
mod listing;
mod lookup;
mod operating;
mod outcomes;
mod owners;
mod promise;
mod reader;
mod replays;
mod row;
mod schema;
mod scopes;
mod store;
mod sweep;
mod tables;
mod transactions;
mod writer;

pub use config::SqliteOptions;
pub use error::SchemaError;
pub use handle::{NoTransaction, SqliteTransaction};
pub use rusqlite;
pub use schema::{Migrated, migrate};
pub use store::SqliteStore;
