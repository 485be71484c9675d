//! The layer over a scripted inner service and the memory store, rule by rule. What an engine does on any store is its
//! own tests' work; what HTTP looks like on a socket is the program's.

#![expect(clippy::unwrap_used, reason = "a test's helper panics like the test itself")]

mod bodies;
mod budget;
mod counting;
mod encoded;
mod frameworks;
mod grpc;
mod harness;
mod keys;
mod outcomes;
mod own_answers;
mod privacy;
mod problems;
mod readiness;
mod recipes;
mod replays;
mod requests;
mod routes;
mod scopes;
mod starting;
mod streams;
mod trailers;
mod transactions;
mod unguarded;
mod verdicts;
mod waiting;
