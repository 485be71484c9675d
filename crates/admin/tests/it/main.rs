//! The admin listener as its users meet it: requests in, answers out, on the memory store.
#![expect(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod access;
mod auditing;
mod bulk;
mod changes;
mod faults;
mod health;
mod histories;
mod listener;
mod listings;
mod openapi;
mod shapes;
mod world;
