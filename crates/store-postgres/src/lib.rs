//! The shared store of oncekey: PostgreSQL, with claims and outcomes committed in batches.
//!
//! A record is a row; many nodes share them. Which states an outcome may be written over comes from `oncekey_core`, and what a
//! write that wasn't made has met is judged by `oncekey_store::change`, as in every store.
//!
//! The one decision: every statement is a transaction of its own that needs no session, and everything that waits when a batch
//! has been committed becomes the next statement. Nothing is ever left open on the server between two messages, so a node that is paused
//! or cut off holds up nobody, and PgBouncer in transaction mode may stand in between. A commit costs a flush of the server's
//! log however much is in it, so a busy node pays it once for hundreds of claims. The price is that a claim and its outcome are
//! two commits, and that what a duplicate met is read by a statement more.
//!
//! ```no_run
//! use oncekey_store_postgres::{PostgresOptions, PostgresStore, migrate};
//!
//! # async fn open() -> Result<(), Box<dyn std::error::Error>> {
//! let options = PostgresOptions::from_url("postgres://oncekey@db.internal/orders?sslmode=verify-full")?;
//! migrate(&options).await?;
//! let store = PostgresStore::open(options).await?;
//! # Ok(())
//! # }
//! ```
//!
//! With the feature `tower`, `PgTransactions` holds claims in transactions in which handlers work too (G3); with `sqlx`,
//! `SqlxTransactions` does so on that driver.
//!
//! Caveats:
//!
//! - The class is `at_most_once` only while commits are durable wherever a failover may go; else
//!   [`promise`](oncekey_store::Store::promise) says which setting falls short (G1, G4).
//! - Times are the server's. Two servers whose clocks differ, before and after a failover, age records differently.
//! - Counts in `stats` are exact up to 400 MB of records, and estimates from a sample beyond.
//! - Behind a pooler no statement is prepared, so each costs the server its parsing and planning.
//! - A listing filtered by scope, key or route reads all records that are newer than its last.

mod audit;
mod claims;
mod config;
mod direct;
mod error;
mod gauges;
mod listing;
mod lookup;
mod operating;
mod outcomes;
mod owners;
mod prepared;
mod promise;
mod reader;
mod replays;
mod row;
mod schema;
mod scopes;
mod seed;
mod session;
mod store;
mod survey;
mod sweep;
mod tls;
#[cfg(feature = "tower")]
mod transactions;
mod writer;

pub use config::{InvalidUrl, PostgresOptions};
pub use error::SchemaError;
pub use promise::{Declared, Undeclarable};
pub use schema::{Migrated, migrate, migration_sql};
pub use store::PostgresStore;
pub use survey::{Survey, survey};
#[cfg(feature = "tower")]
pub use transactions::{
    Isolation, NoTransaction, PgRecoveryPoints, PgSavepoint, PgSteps, PgStepsError, PgTransaction, PgTransactionError,
    PgTransactions, TransactionOptions,
};
#[cfg(feature = "sqlx")]
pub use transactions::{SqlxConnection, SqlxTransaction, SqlxTransactions};
