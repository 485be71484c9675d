//! What goes wrong inside, and what it means to a caller of the store.
//!
//! Whether a failed COMMIT may have been applied is decided here, and nowhere else.

use std::path::PathBuf;

use oncekey_core::RecordId;
use oncekey_store::StoreError;
use rusqlite::ErrorCode;

/// A database that isn't, or isn't yet, one of this version's. It is the source of a `Misconfigured` error of
/// [`open`](crate::SqliteStore::open) and [`migrate`](crate::migrate).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A file that some other program made; it is left alone.
    #[error("{0} is a database of another program")]
    Foreign(PathBuf),
    /// A later version of oncekey has upgraded it.
    #[error("{path} has schema version {found}, and this version knows {known}: use a later oncekey")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The newest version known here.
        known: u32,
    },
    /// No schema yet, or an older one.
    #[error("{path} has schema version {found}, and this version needs {known}: run `oncekey migrate`")]
    Older {
        /// The file.
        path: PathBuf,
        /// Its schema version; 0 for none.
        found: u32,
        /// The version needed here.
        known: u32,
    },
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// SQLite said so.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// A record that can't be read.
    #[error("record {id}: {what}")]
    Corrupt { id: RecordId, what: &'static str },
    /// A row so damaged that it doesn't say whose record it is.
    #[error("row {seq} of the table `records` has no readable id")]
    Nameless { seq: i64 },
    /// The call makes no sense.
    #[error("{0}")]
    Refused(&'static str),
    /// A handler's statement took down the transaction of the batch.
    #[error("a statement of the handler rolled back more than its own rows: ON CONFLICT ROLLBACK, or a full disk")]
    TookDown,
    /// The database file can't be got at.
    #[error("{path}: {error}")]
    File { path: PathBuf, error: std::io::Error },
    /// The file isn't a database that this version can use.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The database file is no longer at its path.
    #[error("{0} was removed or replaced while in use: what is written now would be lost")]
    Moved(PathBuf),
    /// A thread of the store panicked.
    #[error("a bug: the store panicked")]
    Panicked,
    /// More is waiting than the store takes on.
    #[error("too many operations are waiting")]
    QueueFull,
    /// The thread that should do it has ended.
    #[error("the store is closed")]
    Closed,
}

impl Failure {
    /// The error of a call of which nothing was applied: a read, a statement that failed, a transaction rolled back.
    pub(crate) fn not_applied(self) -> StoreError {
        let corrupt = match &self {
            Self::Corrupt { .. } | Self::Nameless { .. } => true,
            Self::Sqlite(error) => is_corrupt(error),
            _ => false,
        };
        if corrupt { StoreError::Corrupt(self.into()) } else { StoreError::NotApplied(self.into()) }
    }

    /// The error of a call that was handed over and whose end nobody saw.
    pub(crate) fn ambiguous(self) -> StoreError {
        StoreError::MayHaveBeenApplied(self.into())
    }

    /// The error of opening a database.
    pub(crate) fn while_opening(self) -> StoreError {
        match &self {
            Self::Sqlite(error) if is_busy(error) => self.not_applied(),
            Self::Sqlite(error) if is_corrupt(error) => self.not_applied(),
            _ => match self {
                // The schema error itself is the source, for whoever wants to tell an old schema from a foreign file.
                Self::Schema(error) => StoreError::Misconfigured(error.into()),
                other => StoreError::Misconfigured(other.into()),
            },
        }
    }

    /// The error of a COMMIT that failed and was rolled back.
    ///
    /// Busy: nothing was written. A constraint that is checked at the COMMIT (a deferred foreign key): it went no further. Disk full: SQLite writes the frames of a transaction in order and the one that makes
    /// them valid last, so a write that found no room was not the last, or left it torn, and its checksum is wrong. After
    /// any other error (above all a failed fsync) the valid frame may be in the file, and a crash now would bring it
    /// back.
    pub(crate) fn of_commit(self) -> StoreError {
        let applied_nothing = match &self {
            Self::Sqlite(error) => {
                let code = error.sqlite_error_code();
                is_busy(error) || matches!(code, Some(ErrorCode::DiskFull | ErrorCode::ConstraintViolation))
            }
            _ => false,
        };
        if applied_nothing { self.not_applied() } else { self.ambiguous() }
    }
}

pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether the file, or a value in it, isn't what was written.
fn is_corrupt(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    let of_file = matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase));
    let of_value = matches!(
        error,
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..)
    );
    of_file || of_value
}
