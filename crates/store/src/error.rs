//! What can go wrong with a store, by what the caller must do about it.

use std::error::Error;

/// Each variant tells the caller what it may do next; the source says what happened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written. The call may be repeated as it is.
    #[error("the store did not apply it: {0}")]
    NotApplied(#[source] Box<dyn Error + Send + Sync>),
    /// The write may or may not have been applied. Repeat the call with the same token, or read the record and compare
    /// tokens (D2, D3).
    #[error("the store may have applied it: {0}")]
    MayHaveBeenApplied(#[source] Box<dyn Error + Send + Sync>),
    /// The record is there and can't be read. It must never be taken for absent (`record-unreadable`).
    #[error("the record can't be read: {0}")]
    Corrupt(#[source] Box<dyn Error + Send + Sync>),
    /// The store can't be used as configured; repeating won't help until somebody has set it right.
    #[error("the store can't be used as configured: {0}")]
    Misconfigured(#[source] Box<dyn Error + Send + Sync>),
}
