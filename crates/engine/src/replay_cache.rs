//! Completed records in memory, for at most `cache_for` and never past their expiry (R8).

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use oncekey_core::response::RecordedBody;
use oncekey_core::{Fingerprint, RecordId, RecordedResponse};

/// Answers the bulk of a retry storm without asking the store.
pub(crate) struct ReplayCache {
    records: Cache<RecordId, Arc<Cached>>,
    keep: Duration,
}

/// A completed record.
pub(crate) struct Cached {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) response: Arc<RecordedResponse>,
    /// By [`oncekey_store::Clock::elapsed`].
    until: Duration,
}

/// What a record takes beside its body: map slots, header map, fingerprint. Measured generously.
const OVERHEAD: usize = 1024;

impl ReplayCache {
    pub(crate) fn new(keep: Duration, bytes: u64) -> Self {
        let weigh = |_: &RecordId, cached: &Arc<Cached>| {
            let body = match &cached.response.body {
                RecordedBody::Stored(body) => body.len(),
                RecordedBody::NotStored => 0,
            };
            let headers: usize =
                cached.response.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 64).sum();
            u32::try_from(body + headers + OVERHEAD).unwrap_or(u32::MAX)
        };
        let records = Cache::builder().weigher(weigh).max_capacity(bytes).time_to_live(keep).build();
        Self { records, keep }
    }

    /// The record, if it may still be answered from memory at `elapsed`.
    pub(crate) fn get(&self, id: RecordId, elapsed: Duration) -> Option<Arc<Cached>> {
        self.records.get(&id).filter(|cached| elapsed < cached.until)
    }

    /// Keeps a completed record that has `life` left by the store's clock.
    pub(crate) fn put(&self, id: RecordId, fingerprint: Fingerprint, response: Arc<RecordedResponse>, life: Life) {
        let keep = self.keep.min(life.left);
        if keep > Duration::ZERO {
            let until = life.elapsed.saturating_add(keep);
            self.records.insert(id, Arc::new(Cached { fingerprint, response, until }));
        }
    }

    /// Forgets a record: it was resolved or purged.
    pub(crate) fn forget(&self, id: RecordId) {
        self.records.invalidate(&id);
    }
}

/// How long a record still lives, and when that was read.
#[derive(Clone, Copy)]
pub(crate) struct Life {
    /// From the reading to the record's expiry, by the store's clock.
    pub(crate) left: Duration,
    /// This node's elapsed time from before the reading.
    pub(crate) elapsed: Duration,
}
