//! Why a step is not there, and what a client is told of it.

use axum_core::response::{IntoResponse, Response};
use http::{StatusCode, header};
use oncekey_store::StoreError;

use super::Trouble;
use crate::transactions::PgTransactionError;

/// Why a step was not read or saved.
///
/// As an answer of axum's it is a 503 that leaves the outcome unknown, so that a retry goes on from what was saved (E7); but
/// [`PgStepsError::Unclaimed`], before which nothing was done, is a 500.
#[derive(Debug, thiserror::Error)]
pub enum PgStepsError {
    /// The request isn't executed under a claim: its route isn't guarded, it has no key, or it is in transactional mode.
    #[error(
        "the request has no key, its route isn't guarded, or it is in transactional mode: there are no steps to go on from"
    )]
    Unclaimed,
    /// The record is another execution's by now, or gone (E4). Nothing was saved.
    #[error("this execution was taken over: another one goes on, or has ended")]
    TakenOver,
    /// Another value was saved under this name.
    #[error("a step of this name was saved before")]
    SavedBefore,
    /// The name can't be used.
    #[error("a step's name has 1 to 64 bytes, and none of them is NUL")]
    Name,
    /// The value is too long.
    #[error("a step's value is at most 64 KiB of JSON")]
    TooLarge,
    /// The value is no JSON, or what was saved is no such value.
    #[error("a step's value: {0}")]
    Value(#[from] serde_json::Error),
    /// A statement of a step's own transaction failed; it was rolled back.
    #[error(transparent)]
    Transaction(#[from] PgTransactionError),
    /// The work itself had it rolled back.
    #[error("the step was rolled back: {0}")]
    RolledBack(Box<dyn std::error::Error + Send + Sync>),
    /// The database, or the way to it. With [`StoreError::MayHaveBeenApplied`] the step may be saved.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PgStepsError {
    /// What the work in a step's transaction returns to have it rolled back.
    pub fn rolled_back(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::RolledBack(error.into())
    }
}

/// What a failed `SAVE` means.
pub(super) fn of_saving(trouble: Trouble) -> PgStepsError {
    match trouble {
        trouble if trouble.is_taken_over() => PgStepsError::TakenOver,
        trouble if trouble.is_saved_before() => PgStepsError::SavedBefore,
        trouble => trouble.of_write().into(),
    }
}

impl From<tokio_postgres::Error> for PgStepsError {
    /// So that `?` does in a step's transaction what it does elsewhere: reading a row's columns fails so.
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Transaction(error.into())
    }
}

impl IntoResponse for PgStepsError {
    fn into_response(self) -> Response {
        let (status, body) = if let Self::Unclaimed = self {
            (StatusCode::INTERNAL_SERVER_ERROR, r#"{"title":"The handler has no steps","status":500}"#)
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, r#"{"title":"The operation stopped on its way","status":503}"#)
        };
        tracing::error!("a handler's step failed: {self}");
        (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response()
    }
}
