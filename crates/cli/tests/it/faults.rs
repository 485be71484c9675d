//! What is left of an operation when something breaks: the gateway is killed or paused, its client hangs up, its disk is
//! full, it is told to end.
//!
//! Scenarios are judged by [`history`]: it knows what each client was answered, how often the upstream executed, and what
//! the records say in the end. Each kind of fault has negative controls, the tests called `control_…`: the same scenario on a
//! gateway that breaks the rule (see `oncekey_engine::fault`), which the same judge must find guilty.

mod barrier;
mod cut_stores;
mod draining;
mod full_disk;
mod hang_ups;
mod history;
mod http2;
mod kills;
mod panics;
mod pauses;
mod postgres;
mod site;
mod unknowns;
