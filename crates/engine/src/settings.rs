//! The engine's settings: what is the same for all routes of a node.

use std::time::Duration;

/// How a node keeps its records. Durations that a route decides are in [`oncekey_core::policy::Timing`].
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a silent node counts as alive (E4). Heartbeats go out every third of it.
    pub lease: Duration,
    /// How long a completed record may be answered from memory without asking the store again (R8); zero: never.
    pub cache_for: Duration,
    /// Bytes that the replay cache may take.
    pub cache_bytes: u64,
    /// How long a claim may take (D1).
    pub store_timeout: Duration,
    /// How long an outcome is tried to be recorded (D3).
    pub record_retry: Duration,
    /// Bytes of outcomes that may wait to be recorded once their first answer was given (D3); past it, an outcome is
    /// recorded without its body.
    pub unrecorded_bytes: usize,
    /// Operations executing at once (W3).
    pub max_inflight: usize,
    /// Waiters on all keys together (W3).
    pub max_waiters_all: usize,
    /// Records that one scope may have (`quota-exceeded`), approximately; `None`: as many as it likes.
    pub max_records_per_scope: Option<u64>,
    /// How often expired records are swept (D5).
    pub sweep_every: Duration,
    /// Records per step of sweeping (D5).
    pub sweep_batch: u32,
}

impl Default for Settings {
    /// The built-in values of the protocol.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            cache_for: Duration::from_secs(1),
            cache_bytes: 32 * 1024 * 1024,
            store_timeout: Duration::from_secs(5),
            record_retry: Duration::from_mins(10),
            unrecorded_bytes: 32 * 1024 * 1024,
            max_inflight: 4096,
            max_waiters_all: 10_000,
            max_records_per_scope: None,
            sweep_every: Duration::from_mins(1),
            sweep_batch: 1000,
        }
    }
}
