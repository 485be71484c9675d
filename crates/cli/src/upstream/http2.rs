//! HTTP/2 towards the upstream: connections that carry many exchanges, and what their frames prove.
//!
//! Built on the crate `h2` itself, not on hyper's client: E6, E7 and E10 hang on things that hyper takes away. It queues a
//! request behind a full connection, long after the check that has to come right before the first byte; and it takes a body
//! that ends in RST_STREAM(CANCEL) for whole. See docs/decisions/0021-http2-upstream.md.
//!
//! Owns all that is HTTP/2. Leaves reaching the upstream and the choice of a protocol to its parent.

mod answer;
mod connection;
mod exchange;
mod form;
mod pool;
mod proof;
mod upload;

pub(super) use self::answer::Answer;
pub(super) use self::connection::{Connection, Place};
pub(super) use self::exchange::send;
pub(super) use self::pool::{Look, Pool};
