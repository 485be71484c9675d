//! What oncekey-core promises its callers, through its public API only.

#![expect(clippy::unwrap_used, reason = "a test's helper panics like the test itself")]

mod codings;
mod differences;
mod fingerprint;
mod forms;
mod ignoring;
mod key;
mod multipart;
mod problem;
mod problem_pages;
mod response;
mod scope;
mod seed;
mod standing;
mod transition;
mod unknowns;
mod vectors;
