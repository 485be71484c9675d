//! The testkit against itself: what the tests of oncekey lean on must hold by itself first.

mod apps;
mod client;
mod process;
mod proxy;
mod upstream_answers;
mod upstream_counts;
mod upstream_cuts;
