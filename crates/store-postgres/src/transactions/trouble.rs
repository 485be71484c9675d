//! What goes wrong in a transaction, told alike for every driver.

use oncekey_store::StoreError;

/// Why a step of a transaction failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Trouble {
    /// The server refused a statement, and the transaction that it was in is, or will be, rolled back.
    #[error("PostgreSQL: {message} ({code})")]
    Refused { code: String, message: String },
    /// The connection, or the session at its other end, is gone: nobody told how the statement ended.
    #[error("the connection to PostgreSQL broke: {0}")]
    Broken(String),
    #[error("PostgreSQL did not answer in time")]
    TookTooLong,
    #[error("no connection could be had: {0}")]
    NoConnection(String),
    #[error("the server answered what was not asked")]
    Unexpected,
    #[error("the handler went on although a statement had failed: its transaction could not be committed")]
    Aborted,
    #[error("the handler still used its transaction after it had answered")]
    Kept,
    #[error("the handler ended oncekey's transaction by itself (COMMIT or ROLLBACK): what it did can't be told")]
    Foreign,
    #[error("it can't be told whether the transaction was committed: {0}")]
    Unsettled(Box<Trouble>),
    #[error("this store's handlers leave no work to be done in the transaction")]
    NoLast,
    #[error("{0}")]
    Misplaced(&'static str),
}

/// The codes that matter here.
mod code {
    pub(super) const SERIALIZATION_FAILURE: &str = "40001";
    pub(super) const DEADLOCK_DETECTED: &str = "40P01";
    pub(super) const IN_FAILED_TRANSACTION: &str = "25P02";
    pub(super) const NO_ACTIVE_TRANSACTION: &str = "25P01";
    pub(super) const NO_SUCH_SAVEPOINT: &str = "3B001";
    pub(super) const DIVISION_BY_ZERO: &str = "22012";
    pub(super) const INVALID_STATEMENT_NAME: &str = "26000";
    pub(super) const UNDEFINED_TABLE: &str = "42P01";
    pub(super) const NOT_NULL_VIOLATION: &str = "23502";
    pub(super) const UNIQUE_VIOLATION: &str = "23505";
}

/// Whether a code says that another transaction was met, and running again is worth it.
pub(super) fn met_another(code: &str) -> bool {
    [code::SERIALIZATION_FAILURE, code::DEADLOCK_DETECTED].contains(&code)
}

impl Trouble {
    fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            _ => None,
        }
    }

    pub(super) fn met_another(&self) -> bool {
        self.code().is_some_and(met_another)
    }

    /// A statement failed before this one, and the transaction does nothing more.
    pub(super) fn is_aborted(&self) -> bool {
        self.code() == Some(code::IN_FAILED_TRANSACTION)
    }

    /// What sqlx's rolling back of the whole transaction, when a savepoint couldn't be set, means to its end.
    #[cfg(feature = "sqlx")]
    pub(super) fn lost() -> Self {
        let message = "a savepoint could not be set, and all was rolled back".to_owned();
        Self::Refused { code: code::IN_FAILED_TRANSACTION.to_owned(), message }
    }

    /// The transaction isn't the one that was begun: its savepoint isn't there.
    pub(super) fn is_foreign(&self) -> bool {
        self.code().is_some_and(|code| [code::NO_SUCH_SAVEPOINT, code::NO_ACTIVE_TRANSACTION].contains(&code))
    }

    /// Writing the record found that it can't: see `protocol::WRITE`.
    pub(super) fn is_in_the_way(&self) -> bool {
        self.code() == Some(code::DIVISION_BY_ZERO)
    }

    /// Saving a step found that the claim isn't the record's any more: see `steps::SAVE`.
    pub(super) fn is_taken_over(&self) -> bool {
        self.code() == Some(code::NOT_NULL_VIOLATION)
    }

    /// There is a step of that name.
    pub(super) fn is_saved_before(&self) -> bool {
        self.code() == Some(code::UNIQUE_VIOLATION)
    }

    pub(super) fn lacks_table(&self) -> bool {
        self.code() == Some(code::UNDEFINED_TABLE)
    }

    /// A prepared statement isn't there any more: its handler has deallocated it, say.
    pub(super) fn lacks_statement(&self) -> bool {
        self.code() == Some(code::INVALID_STATEMENT_NAME)
    }

    pub(super) fn is_refused(&self) -> bool {
        self.code().is_some()
    }

    /// The error of a write by itself.
    pub(super) fn of_write(self) -> StoreError {
        match self {
            Self::Broken(_) | Self::TookTooLong => StoreError::MayHaveBeenApplied(self.into()),
            _ => self.not_applied(),
        }
    }

    pub(super) fn not_applied(self) -> StoreError {
        StoreError::NotApplied(self.into())
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        use tokio_postgres::error::Severity;
        // What ends the session (FATAL) can strike between a commit and its acknowledgement.
        match error.as_db_error() {
            Some(said) if said.parsed_severity() == Some(Severity::Error) => {
                Self::Refused { code: said.code().code().to_owned(), message: said.message().to_owned() }
            }
            Some(said) => Self::Broken(format!("{} ({})", said.message(), said.code().code())),
            None => Self::Broken(error.to_string()),
        }
    }
}

#[cfg(feature = "sqlx")]
impl From<::sqlx::Error> for Trouble {
    fn from(error: ::sqlx::Error) -> Self {
        use ::sqlx::postgres::{PgDatabaseError, PgSeverity};
        let Some(said) = error.as_database_error().and_then(|said| said.try_downcast_ref::<PgDatabaseError>()) else {
            return Self::Broken(error.to_string());
        };
        match said.severity() {
            PgSeverity::Error => Self::Refused { code: said.code().to_owned(), message: said.message().to_owned() },
            _ => Self::Broken(format!("{} ({})", said.message(), said.code())),
        }
    }
}
