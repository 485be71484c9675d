//! The admin listener as its users meet it: requests in, answers out, on the memory store.
#![expect(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod access;
mod changes;
mod faults;
mod health;
mod listener;
mod listings;
mod shapes;
mod world;
