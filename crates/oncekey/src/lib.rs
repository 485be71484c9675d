//! Executes each operation once.
//!
//! A client that gets no answer can't know whether its order was placed. It sends the order again, and hopes. With oncekey it
//! sends an `Idempotency-Key` along, and the same key with each retry: the first request is executed, every other gets the
//! recorded answer, whatever crashes, hangs up or times out in between.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use axum::{Router, routing::post};
//! use oncekey::{MemoryStore, Oncekey, Options};
//!
//! async fn place() -> &'static str {
//!     "order 1"
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let oncekey = Oncekey::start(Arc::new(MemoryStore::default()), Options::default()).await?;
//!     let app = Router::new().route("/orders", post(place)).layer(oncekey.layer());
//!
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//!     axum::serve(listener, app).await?;
//!     oncekey.shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! `MemoryStore` forgets everything when the process ends. For records that survive it, take the feature `sqlite` and
#![cfg_attr(feature = "sqlite", doc = "[`sqlite::open`].")]
#![cfg_attr(not(feature = "sqlite"), doc = "`sqlite::open`.")]
//! For records that many processes share, take `postgres` and
#![cfg_attr(feature = "postgres", doc = "[`postgres::open`].")]
#![cfg_attr(not(feature = "postgres"), doc = "`postgres::open`.")]
//!
//! # The one decision, and its price
//!
//! **What can't be known is never executed again.** The claim is durable before a handler runs, and its answer is durable
//! before the client gets it. If the process dies in between, nobody can tell whether the operation took effect; its retries
//! get 504 `outcome-unknown` until an operator says how it ended, or the record expires. The price: two durable writes for
//! each first execution, answers that are held until they are recorded, and now and then a question for a person.
//!
//! # How it behaves
//!
//! - A request is guarded if a [`Route`] says so; by default every POST, PUT, PATCH and DELETE. Without a key it
//!   passes untouched, unless the route requires one.
//! - A key lives in a scope: whose key it is. By default that is what `X-Account-Id` says, and a request without it is refused.
//!   Behind a proxy that doesn't set that field, read the scope from your own session or token by a
//!   [`ScopeReader`].
//! - The same key with another request is 409 `key-reused`. A duplicate of a running request waits a second, then gets 202.
//! - Answers of any status are recorded and replayed, but for those that invite a retry (401, 403, 408, 425, 429, a 503 with
//!   `Retry-After`), and those that leave it open whether it took effect (502, 504, a 503 without).
//! - A handler belongs to oncekey, not to the connection: it runs to its end when its client hangs up. It finds an
//!   [`Attempt`] in the request's extensions: the operation's id, and which attempt this is.
//! - gRPC calls carry the key as metadata `idempotency-key`; oncekey's own problems are gRPC statuses then.
//! - In transactional mode a handler works in the database transaction in which its answer is recorded: rows and record are
//!   committed together or not at all, so nothing is ever unknown for long. See [transactional mode](#transactional-mode).
//! - Without HTTP, [`Engine::once`] runs any async operation once: a queue's message, a job.
//!
//! # Transactional mode
//!
//! A route that is given a store's [`Transactions`] (or all of them, by `Options::transactions`) makes claim, handler and record one
//! transaction of one database. A 2xx or 3xx is committed with the handler's rows. A 4xx is recorded without them. A 5xx, the answers
//! that invite a retry, a panic, an error and a crash leave nothing, and a retry runs again. What a handler does outside of that
//! database, a call to a payment provider above all, is not part of it: it stays when the transaction is rolled back, and happens
//! again when it runs again. Such handlers are better off without this mode, with recovery points (`postgres::PgSteps`). Jobs have it by [`Job::within`].
//!
//! # Caveats
//!
//! - Put the layer outside of axum's `nest`, which takes the front off the path: two nested routers with equal paths would
//!   be one to the layer.
//! - A keyed request is read whole before it executes (1 MiB at most by default), and an answer over 1 MiB is given but not
//!   kept.
//! - A panic or an error of the inner service leaves the outcome unknown, unless [`NotExecuted`] is among the error's sources.
//! - What the scope says is believed. A client that may choose it freely may read what another's request was answered.
//!
//! # Features
//!
//! `tower` (default): the layer. `sqlite`: the embedded store. `postgres`: the store that many nodes share. `sqlx`: its
//! transactional mode on sqlx. These compile C (SQLite itself, and the cryptography of TLS). Without any: the engine and the memory store.

pub use oncekey_core as protocol;
pub use oncekey_engine as engine;
pub use oncekey_store as store;
#[cfg(feature = "tower")]
pub use oncekey_tower as tower;

pub use oncekey_core::{Key, Namespace, Scope, ScopeSource};
pub use oncekey_engine::{Attempt, Engine, InvalidJob, Job, NotExecuted, Once, Settings};
pub use oncekey_store::{Fence, MemoryStore, Store, StoreError, SystemClock, TransactionHandle, Transactions};
#[cfg(feature = "tower")]
pub use oncekey_tower::{
    Guard, IdempotencyLayer, InvalidScope, Oncekey, Options, RequestBody, ResponseBody, Route, RouteError, ScopeReader,
    StartError,
};

#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
