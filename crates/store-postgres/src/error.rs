//! What goes wrong inside, and what it means to a caller of the store.
//!
//! Whether a failed write may have been applied is decided here, and nowhere else.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use oncekey_core::RecordId;
use oncekey_store::StoreError;
use tokio_postgres::error::{Severity, SqlState};

/// A database whose schema isn't, or isn't yet, this version's. It is the source of a `Misconfigured` error of
/// [`open`](crate::PostgresStore::open) and [`migrate`](crate::migrate).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A table of that name that some other program made; it is left alone.
    #[error("the table `{0}` is there and is not oncekey's: it is left alone; use another database or schema")]
    Foreign(String),
    /// A table that might be of the code that oncekey grew from, and has another shape; it is left alone.
    #[error(
        "the table `{table}` is there, is not oncekey's and can't be taken over ({differs}): it is left alone; use another \
         database or schema"
    )]
    Unlike {
        /// Its name.
        table: String,
        /// What of its shape differs.
        differs: String,
    },
    /// A later version of oncekey has upgraded it.
    #[error("the schema has version {found}, and this version knows {known}: use a later oncekey")]
    Newer {
        /// Its schema version.
        found: u32,
        /// The newest version known here.
        known: u32,
    },
    /// No schema yet, or an older one.
    #[error("the schema has version {found}, and this version needs {known}: run `oncekey migrate`")]
    Older {
        /// Its schema version; 0 for none.
        found: u32,
        /// The version needed here.
        known: u32,
    },
}

/// Why an operation failed. Shared, since a whole batch may fail of it.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The server, or the way to it.
    #[error("{}", told(.0))]
    Postgres(Arc<tokio_postgres::Error>),
    /// There is no connection, so nothing was sent.
    #[error("{}", told(.0))]
    Unreached(Arc<tokio_postgres::Error>),
    /// A record that can't be read.
    #[error("record {id}: {what}")]
    Corrupt { id: RecordId, what: &'static str },
    /// A row so damaged that it doesn't say whose record it is.
    #[error("the row with claim_no {claim_no} of the table `idempotency_keys` has no readable id")]
    Nameless { claim_no: i64 },
    /// The call makes no sense.
    #[error("{0}")]
    Refused(&'static str),
    /// The file of root certificates.
    #[error("sslrootcert {}: {what}", path.display())]
    Roots { path: PathBuf, what: String },
    /// TLS can't be set up.
    #[error("TLS: {0}")]
    Tls(String),
    /// The schema isn't one that this version can use.
    #[error(transparent)]
    Schema(SchemaError),
    /// The server took too long; its connection was given up.
    #[error("the server did not answer in time")]
    TookTooLong,
    /// A commit is there and may be on no standby yet.
    #[error("the server stopped waiting for its standbys: a failover could lose what was committed")]
    NotReplicated,
    /// The record changed each time it was looked at.
    #[error("the record kept changing while it was being written")]
    Restless,
    /// More is waiting than the store takes on.
    #[error("too many operations are waiting")]
    QueueFull,
    /// The task that should do it has ended.
    #[error("the store is closed")]
    Closed,
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(Arc::new(error))
    }
}

/// The cause says more than tokio-postgres's own `db error`. A server's message can repeat a value (in its detail), so only its
/// first line and the code are told (P2).
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("PostgreSQL: {} ({})", said.message(), said.code().code()),
        None => match error.source() {
            Some(cause) => format!("PostgreSQL: {error}: {cause}"),
            None => format!("PostgreSQL: {error}"),
        },
    }
}

impl Failure {
    pub(crate) fn tls(error: impl std::fmt::Display) -> Self {
        Self::Tls(error.to_string())
    }

    /// The same of an attempt to connect: nothing was sent yet.
    pub(crate) fn while_connecting(self) -> Self {
        match self {
            Self::Postgres(error) => Self::Unreached(error),
            other => other,
        }
    }

    /// The same of an attempt to prepare a statement that was to be run then: it wasn't, however that ended.
    pub(crate) fn while_preparing(self) -> Self {
        if self.refused_with().is_some() { self } else { self.while_connecting() }
    }

    /// The SQLSTATE of a statement that the server refused and rolled back. What ends the session (FATAL) isn't one: it can
    /// strike between the commit and its acknowledgement.
    pub(crate) fn refused_with(&self) -> Option<&SqlState> {
        let Self::Postgres(error) = self else { return None };
        let said = error.as_db_error()?;
        (said.parsed_severity() == Some(Severity::Error)).then(|| said.code())
    }

    /// Whether the same statement may well succeed at once: a deadlock, a serialization failure.
    pub(crate) fn is_transient(&self) -> bool {
        let code = self.refused_with();
        code.is_some_and(|code| {
            *code == SqlState::T_R_DEADLOCK_DETECTED || *code == SqlState::T_R_SERIALIZATION_FAILURE
        })
    }

    /// Whether a row was held by someone else for too long.
    pub(crate) fn is_held_up(&self) -> bool {
        self.refused_with() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// How the statement that writes a whole record says that it can't.
    pub(crate) fn is_division_by_zero(&self) -> bool {
        self.refused_with() == Some(&SqlState::DIVISION_BY_ZERO)
    }

    /// The error of a call of which nothing was applied: a reading, a statement that was refused, one never sent. A password
    /// that is refused while the store is in use may be one that is just being changed, and a right that is missing be given
    /// back: whoever has an outcome to record goes on trying (D3).
    pub(crate) fn not_applied(self) -> StoreError {
        match &self {
            Self::Corrupt { .. } | Self::Nameless { .. } => StoreError::Corrupt(self.into()),
            _ => StoreError::NotApplied(self.into()),
        }
    }

    /// The error of opening or migrating a database, where somebody can still be told that waiting won't help.
    pub(crate) fn while_opening(self) -> StoreError {
        match &self {
            // The schema error itself is the source, for whoever wants to tell an old schema from a foreign table.
            Self::Schema(error) => StoreError::Misconfigured(error.clone().into()),
            Self::Roots { .. } | Self::Tls(_) => StoreError::Misconfigured(self.into()),
            Self::Postgres(error) | Self::Unreached(error) if is_misconfigured(error) => {
                StoreError::Misconfigured(self.into())
            }
            _ => self.not_applied(),
        }
    }

    /// The error of a write that was sent.
    pub(crate) fn of_write(self) -> StoreError {
        match &self {
            // Rolled back, whatever the reason.
            _ if self.refused_with().is_some() => self.not_applied(),
            Self::Postgres(_) | Self::TookTooLong | Self::NotReplicated => StoreError::MayHaveBeenApplied(self.into()),
            _ => self.not_applied(),
        }
    }
}

/// Whether waiting won't help: the wrong password, a database or a right that is missing, a certificate that isn't trusted.
fn is_misconfigured(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else {
        let tls = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
        let cause = tls.and_then(std::io::Error::get_ref);
        return cause.is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>);
    };
    [
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        SqlState::INVALID_CATALOG_NAME,
        SqlState::INVALID_SCHEMA_NAME,
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::FEATURE_NOT_SUPPORTED,
    ]
    .contains(code)
}
