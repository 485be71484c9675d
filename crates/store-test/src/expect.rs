//! Takes the expected result out of an answer, or panics with what came instead.

use oncekey_core::Timestamp;
use oncekey_store::{Claimed, Found, Recorded, StoreError};

/// The attempt that was granted.
///
/// # Panics
/// If it wasn't.
#[track_caller]
pub fn granted(answer: &Result<Claimed, StoreError>) -> u32 {
    match answer {
        Ok(Claimed::Granted { attempt, .. }) => *attempt,
        other => panic!("expected Granted, got {other:?}"),
    }
}

/// The record that was in the way of a claim.
///
/// # Panics
/// If none was.
#[track_caller]
pub fn held(answer: Result<Claimed, StoreError>) -> Found {
    match answer {
        Ok(Claimed::Held(found)) => *found,
        other => panic!("expected Held, got {other:?}"),
    }
}

/// When the record that was written expires.
///
/// # Panics
/// If it wasn't written.
#[track_caller]
pub fn written(answer: &Result<Recorded, StoreError>) -> Timestamp {
    match answer {
        Ok(Recorded::Written { expires, .. }) => *expires,
        other => panic!("expected Written, got {other:?}"),
    }
}

/// The record that refused a write; `None` if there is none.
///
/// # Panics
/// If it was written.
#[track_caller]
pub fn fenced(answer: Result<Recorded, StoreError>) -> Option<Found> {
    match answer {
        Ok(Recorded::Fenced(found)) => found.map(|found| *found),
        other => panic!("expected Fenced, got {other:?}"),
    }
}
