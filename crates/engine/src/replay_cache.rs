//! Completed records in memory, for at most `cache_for` and never past their expiry (R8). What a duplicate had to read from
//! the store is kept here for those that follow it; a first execution, which most often has no duplicate, costs nothing.

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::response::RecordedBody;
use oncekey_core::{Fingerprint, RecordId, RecordedResponse};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Answers the bulk of a retry storm without asking the store.
pub(crate) struct ReplayCache {
    records: Cache<RecordId, Arc<Cached>, Weight>,
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

/// What a record takes in memory, in bytes.
#[derive(Clone)]
struct Weight;

impl Weighter<RecordId, Arc<Cached>> for Weight {
    fn weight(&self, _: &RecordId, cached: &Arc<Cached>) -> u64 {
        let body = match &cached.response.body {
            RecordedBody::Stored(body) => body.len(),
            RecordedBody::NotStored => 0,
        };
        (body + OVERHEAD) as u64
    }
}

impl ReplayCache {
    pub(crate) fn new(keep: Duration, bytes: u64) -> Self {
        let records = usize::try_from(bytes).unwrap_or(usize::MAX) / (4 * OVERHEAD);
        Self { records: Cache::with_weighter(records, bytes, Weight), keep }
    }

    /// The record, if it may still be answered from memory at `elapsed`.
    pub(crate) fn get(&self, id: RecordId, elapsed: Duration) -> Option<Arc<Cached>> {
        let cached = self.records.get(&id)?;
        if elapsed < cached.until {
            return Some(cached);
        }
        self.records.remove_if(&id, |kept| Arc::ptr_eq(kept, &cached));
        None
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
        self.records.remove(&id);
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
