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
//!
//! ```
//! use std::sync::Arc;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use oncekey_store::MemoryStore;
//! use oncekey_tower::{BodyError, Oncekey, Options, RequestBody};
//! use tower::{ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BodyError> {
//! async fn place(order: Request<RequestBody>) -> Result<Response<Full<bytes::Bytes>>, BodyError> {
//!     Ok(Response::new(Full::new(order.into_body().collect().await?.to_bytes())))
//! }
//! let oncekey = Oncekey::start(Arc::new(MemoryStore::default()), Options::default()).await?;
//! let service = ServiceBuilder::new().layer(oncekey.layer()).service_fn(place);
//! for replayed in [false, true] {
//!     let order = Request::post("/orders").header("Idempotency-Key", "k").header("X-Account-Id", "acc-1");
//!     let answer = service.clone().oneshot(order.body(Full::<bytes::Bytes>::from("tea"))?).await?;
//!     assert_eq!(answer.headers().contains_key("Idempotent-Replayed"), replayed);
//! }
//! oncekey.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! What happens to a request is told in `tracing` spans of the target [`SPAN_TARGET`](oncekey_engine::SPAN_TARGET), below the span in
//! which the layer is called; that span gets the outcome if it declares `oncekey.route`, `oncekey.outcome` and
//! `oncekey.operation_id`. How a [`Replay`] finds the span of its execution is told there.
//!
//! Caveats: a layer behind a router that takes the front off the path (axum's `nest`) sees, guards and compares what is left of
//! it. The trailers of requests are dropped; those of answers are recorded (R6). gRPC calls are guarded if they send one
//! message; what their statuses mean is told in `docs/decisions/0026-grpc.md`.

mod answer;
mod body;
mod budget;
mod counts;
mod execute;
mod gathered;
mod grpc;
mod inspect;
mod intake;
mod keyed;
mod layer;
mod mismatches;
mod own_answers;
mod passing;
mod reading;
mod request;
mod route;
mod scope;
mod spans;
mod start;
mod stream;
mod trailers;

pub use body::{BodyError, RequestBody, ResponseBody};
pub use budget::Budget;
pub use inspect::Inspection;
pub use layer::{Idempotency, IdempotencyLayer};
pub use mismatches::{Mismatches, Mismatching};
pub use own_answers::{OwnAnswers, problem_response};
pub use route::{Guard, Route, RouteError, Routes};
pub use scope::{InvalidScope, ScopeReader};
pub use spans::Replay;
pub use start::{Oncekey, Options, StartError};
