//! Tests of the program `oncekey` from outside: exit codes, what is on stdout and what on stderr; and, in builds with the
//! feature `fault-points`, what is left of an operation when something breaks.

mod configuration;
#[cfg(feature = "fault-points")]
mod faults;
