//! Transactions in which a handler works and its record is written: business rows and record commit together or not at all (G3).
//!
//! Nothing of the record is written before the handler has ended. What holds the claim until then is an advisory lock of the
//! transaction, so that neither the batches of two-commit claims nor a sweep ever wait for a handler; at the end one statement
//! writes the whole record, or finds that another was faster, and then everything is rolled back (decision 0044).
//!
//! `steps` are recovery points, for handlers that aren't in such a transaction.
//!
//! `protocol` has the statements, `trouble` what their failures mean; `ground` begins a transaction and `open` ends it, on any
//! `driver`. `pooled` is tokio-postgres, `sqlx` the other; `handle` and `sqlx_handle` are what handlers get.

mod driver;
mod extract;
mod ground;
mod handle;
mod open;
mod pooled;
mod protocol;
#[cfg(feature = "sqlx")]
mod sqlx;
#[cfg(feature = "sqlx")]
mod sqlx_handle;
mod steps;
mod trouble;

use std::time::Duration;

pub use extract::NoTransaction;
pub use handle::{PgSavepoint, PgTransaction, PgTransactionError};
pub use pooled::PgTransactions;
#[cfg(feature = "sqlx")]
pub use sqlx::SqlxTransactions;
#[cfg(feature = "sqlx")]
pub use sqlx_handle::{SqlxConnection, SqlxTransaction};
pub use steps::{PgRecoveryPoints, PgSteps, PgStepsError};

/// The isolation level that a transaction begins with. It can't be changed after its beginning, since oncekey reads in it first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// What the database, the role or the connection has as its default.
    #[default]
    Default,
    /// `READ COMMITTED`.
    ReadCommitted,
    /// `REPEATABLE READ`.
    RepeatableRead,
    /// `SERIALIZABLE`. Failures to serialize run the handler again.
    Serializable,
}

/// How transactions are begun.
#[derive(Clone, Debug)]
pub struct TransactionOptions {
    /// Default: the database's own.
    pub isolation: Isolation,
    /// How long a handler's statement waits for what another transaction holds, before it fails with `55P03`. Default 5s.
    pub lock_timeout: Duration,
    /// How long a request waits for a connection of the pool, before it is refused with nothing applied. Default 5s.
    pub wait: Duration,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self { isolation: Isolation::Default, lock_timeout: Duration::from_secs(5), wait: Duration::from_secs(5) }
    }
}
