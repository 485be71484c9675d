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
//! Under the protocol's `hold` an execution whose outcome nobody knows is never executed again. Under `retry` and `probe`
//! it is, by a retry that takes the record over with a new token; then the earlier execution's outcome counts no more (E4).
//! What no policy can promise: between the last check of a claim and the first byte of its execution the process can be
//! paused for longer than the lease (E10). Under `hold` that costs a wrong `unknown`; under the others a takeover may have
//! executed meanwhile, and the paused process's byte is a second execution with the same key.
//!
//! Its steps are `tracing` spans of the target [`SPAN_TARGET`], children of the span in which a call was made.
//!
//! Without HTTP it runs any async operation once, by the scope and the key it is told, such as a queue's message:
//!
//! ```
//! use std::sync::Arc;
//! use oncekey_engine::{Engine, Job, Once, Settings};
//! use oncekey_store::{MemoryStore, SystemClock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = Arc::new(SystemClock);
//! let engine = Engine::start(Arc::new(MemoryStore::new(clock.clone())), clock, Settings::default()).await?;
//! for delivery in ["first", "again"] {
//!     let job = Job::new("send-invoice", "acc-1", "message-7")?.with_input("12 EUR");
//!     let sent = engine.once(job, |_| async { Ok::<_, std::io::Error>("invoice 1 sent") }).await;
//!     assert_eq!(sent, Once::Done { result: Some("invoice 1 sent".into()), replayed: delivery == "again" });
//! }
//! engine.shutdown(std::time::Duration::from_secs(70)).await;
//! # Ok(())
//! # }
//! ```

mod attempt;
mod call;
mod claiming;
mod ending;
mod engine;
mod executing;
mod flight;
mod lead;
mod metered;
mod node;
mod once;
mod places;
mod poller;
mod probing;
mod quota;
mod random;
mod recorder;
mod replay_cache;
mod replay_counts;
mod settings;
mod spans;
mod stopwatch;
mod store_time;
mod watching;

pub use attempt::{Attempt, NotExecuted};
pub use call::{Call, Deferring, Ended, Executed, Passed, Probe, Probed, Unguarded, Work};
pub use engine::Engine;
pub use node::sweep;
pub use once::{InvalidJob, Job, Once};
pub use oncekey_store::fault;
pub use settings::Settings;
pub use spans::SPAN_TARGET;
pub use stopwatch::{Running, Stopwatch};
