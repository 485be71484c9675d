//! What oncekey's tests and benchmarks are made of: the things around the gateway, each of them real.
//!
//! - [`CountingUpstream`]: a server of HTTP/1.1 or HTTP/2 that counts executions per scope and key, and does what the test's own
//!   request headers tell it to (delay, gate, any body, any framing, a cut).
//! - [`FaultProxy`]: a TCP proxy that cuts, blackholes or holds back what passes through it.
//! - [`Process`]: a program under test: its output, its signals, its exit, its memory and CPU time.
//! - [`Client`] for requests that should work, [`RawClient`] for bytes on the wire; for HTTP/2 [`Http2Client`] and
//!   [`FrameClient`].
//! - `tls`, a feature: an authority that issues certificates, and TLS in front of any server.
//! - [`PythonUpstream`] and [`NodeUpstream`]: a FastAPI and an Express application; [`PythonHttp2Upstream`] and
//!   [`NodeHttp2Upstream`]: the same over HTTP/2.
//! - [`PostgresServer`] and, in front of one, [`Pooler`]: PostgreSQL 15 and 18, and PgBouncer.
//!
//! Everything listens on loopback, on a port that the system chose, and ends when it is dropped. Nothing here waits
//! without a limit: what a test waits for and doesn't get within [`PATIENCE`] fails with a sentence that says what was
//! missing. Nothing here judges oncekey either: what is right stands in the tests.

mod apps;
mod client;
pub mod frames;
mod http2;
mod loopback;
mod postgres;
mod process;
mod proxy;
mod raw_client;
#[cfg(feature = "tls")]
pub mod tls;
mod upstream;

use std::time::Duration;

pub use apps::{AppUpstream, NodeHttp2Upstream, NodeUpstream, PythonHttp2Upstream, PythonUpstream, run_python};
pub use client::{Answer, Call, Client};
pub use frames::FrameClient;
pub use http2::{Http2Client, whole};
pub use loopback::{free_address, free_addresses, raise_open_files, scratch_dir};
pub use postgres::{CommitCutter, CutAt, Pooler, PostgresServer, Release, SEED_TABLE};
pub use process::{Lines, Memory, Process};
pub use proxy::{Direction, FaultProxy};
pub use raw_client::{RawAnswer, RawClient};
pub use tempfile::TempDir;
pub use upstream::{Arrival, CountingUpstream, Options, payload};

/// How long anything in this crate waits for an event before it fails the test: longer than any loaded machine needs,
/// short enough that a hung test is seen.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// How a TCP connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// In order: what was written before arrives, then the end of the stream.
    Fin,
    /// By a reset (`SO_LINGER` 0): the peer's next read fails.
    Rst,
}
