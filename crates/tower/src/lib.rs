//! The HTTP face of oncekey: a tower layer over the engine.
//!
//! [`IdempotencyLayer`] wraps any service that takes requests with a [`RequestBody`]. Requests that no [`Route`] guards, or
//! that carry no key where none is required, pass through untouched and unbuffered (K6, K7). A keyed request is read whole,
//! becomes an operation (key, scope, fingerprint), and is executed once by the engine; every retry gets the recorded
//! answer.
//!
//! The one decision: a keyed request's body is read before anything is claimed, and its answer is recorded before anything
//! is delivered (E2). That costs memory, bounded by [`Budget`], and the streaming of answers, except for those that rule R7
//! names. In return nothing half-read is ever executed, and what a client saw is what its retry sees.
//!
//! An inner service that can prove that nothing ran returns an error with [`oncekey_engine::NotExecuted`] among its
//! sources; any other error leaves the outcome `unknown`. The text of either is logged, so it must not hold bodies,
//! credentials or keys (P2). A keyed request asks the service whether it is ready when it is about to be executed, not
//! before: replays and waiters take no place in a concurrency limit, and a service that doesn't get ready ran nothing.

mod answer;
mod body;
mod budget;
mod counts;
mod execute;
mod gathered;
mod grpc;
mod intake;
mod keyed;
mod layer;
mod own_answers;
mod request;
mod route;
mod scope;
mod start;
mod stream;
mod trailers;

pub use body::{BodyError, RequestBody, ResponseBody};
pub use budget::Budget;
pub use layer::{Idempotency, IdempotencyLayer};
pub use own_answers::{OwnAnswers, problem_response};
pub use route::{Guard, Route, RouteError, Routes};
pub use scope::{InvalidScope, ScopeReader};
pub use start::{Oncekey, Options, StartError};
