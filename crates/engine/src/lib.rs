//! Claim, wait, execute, record, replay: the engine of oncekey on any store.

mod attempt;

pub use attempt::{Attempt, NotExecuted};
