//! Tests of the program `oncekey` from outside: what it says and ends with, what it does between real clients and real
//! upstreams, and, in builds with the feature `fault-points`, what is left of an operation when something breaks.

mod configuration;
mod explaining;
#[cfg(feature = "fault-points")]
mod faults;
mod figures;
mod gateway;
mod manual;
mod monitoring;
mod server;
