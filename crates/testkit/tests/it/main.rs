//! The testkit against itself: what the tests of oncekey lean on must hold by itself first.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report; the lint only knows `#[test]` functions")]

mod apps;
mod client;
mod process;
mod proxy;
#[cfg(feature = "tls")]
mod tls;
mod upstream_answers;
mod upstream_counts;
mod upstream_cuts;
mod upstream_http2;
