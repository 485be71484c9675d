//! The cases of the suite, by what they are about. Each panics when the store under test is wrong.

pub mod auditing;
pub mod beginning;
pub mod claiming;
pub mod closing;
pub mod counting;
pub mod listing;
pub mod living;
pub mod operating;
pub mod outcomes;
pub mod replacing;
pub mod responses;
pub mod sweeping;
