//! What oncekey-core promises its callers, through its public API only.

#![expect(clippy::unwrap_used, reason = "a test's helper panics like the test itself")]

mod fingerprint;
mod key;
mod problem;
mod problem_pages;
mod response;
mod scope;
mod standing;
mod transition;
mod vectors;
