//! The gateway end to end: the program itself, over real sockets, between clients and upstreams of every kind.
//!
//! What happens when something is killed, stopped or cut off is not asked here.

mod answers;
mod applications;
mod bodies;
mod canary;
mod checking;
mod clients;
mod combined;
mod connections;
mod counters;
mod dashboard;
mod demo;
mod floods;
mod framing;
mod http2;
mod large;
mod limits;
mod operator;
mod passing;
mod postgres;
mod profiles;
mod promises;
mod reloading;
mod scopes;
mod seed;
mod smuggling;
pub(crate) mod stand;
mod starting;
mod streams;
mod tls;
mod traces;
mod unknowns;
mod waiters;
mod waking;
