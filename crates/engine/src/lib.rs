//! Claim, wait, execute, record, replay: oncekey on any store, without HTTP.
//!
//! An [`Engine`] takes a [`Call`] (an operation's identity, its fingerprint and the work that executes it) and says how it
//! [`Ended`]. Twenty calls for one record at once are one execution: inside a process they gather behind one of them, which
//! leads; between processes the store's claim decides (E1).
//!
//! The one decision: an execution belongs to the engine, not to the caller. The leader runs as a task of its own, so a
//! caller that goes away changes nothing, and the outcome is recorded for whoever asks again (E3). The price is that work
//! can't be cancelled by its caller; it ends by itself or by `upstream_timeout`.
//!
//! What it promises is the protocol's `hold`: an execution whose outcome nobody knows is never executed again. What it
//! can't promise: between the last check of a claim and the first byte of its execution the process can be paused for
//! longer than the lease (E10). Nobody else executes meanwhile, so that costs a wrong `unknown`, not a second execution.

pub mod fault;

mod attempt;
mod call;
mod claiming;
mod ending;
mod engine;
mod flight;
mod lead;
mod node;
mod poller;
mod random;
mod recorder;
mod replay_cache;
mod replay_counts;
mod settings;
mod store_time;

pub use attempt::{Attempt, NotExecuted};
pub use call::{Call, Ended, Executed, Work};
pub use engine::Engine;
pub use node::sweep;
pub use settings::Settings;
