//! Tests of the program `oncekey` from outside: what it says and ends with, and what it does between real clients and real
//! upstreams.

mod configuration;
mod gateway;
