//! Completed records in memory, for at most `cache_for` and never past their expiry (R8). What a duplicate had to read from
//! the store is kept here for those that follow it; a first execution, which most often has no duplicate, costs nothing.

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::response::RecordedBody;
use oncekey_core::{Fingerprint, RecordId, RecordedResponse};
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Answers the bulk of a retry storm without asking the store.
pub(crate) struct ReplayCache {
    records: Cache<RecordId, Arc<Cached>, Weight>,
    keep: Mutex<Duration>,
}

/// A completed record.
pub(crate) struct Cached {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) response: Arc<RecordedResponse>,
    /// By [`oncekey_store::Clock::elapsed`].
    until: Duration,
}

/// What a record takes beside its body and its header lines: map slots, fingerprint, response.
const OVERHEAD: usize = 1024;

/// What a header line takes beside its name and value. Measured: about 340 bytes for a line of 150.
const LINE_OVERHEAD: usize = 200;

/// What a record takes in memory, in bytes.
#[derive(Clone)]
struct Weight;

impl Weighter<RecordId, Arc<Cached>> for Weight {
    fn weight(&self, _: &RecordId, cached: &Arc<Cached>) -> u64 {
        let body = match &cached.response.body {
            RecordedBody::Stored(body) => body.len(),
            RecordedBody::NotStored => 0,
        };
        let lines = cached.response.headers.iter().chain(&cached.response.trailers);
        let lines: usize = lines.map(|(name, value)| name.as_str().len() + value.len() + LINE_OVERHEAD).sum();
        (body + lines + OVERHEAD) as u64
    }
}

impl ReplayCache {
    pub(crate) fn new(keep: Duration, bytes: u64) -> Self {
        let records = usize::try_from(bytes).unwrap_or(usize::MAX) / (4 * OVERHEAD);
        Self { records: Cache::with_weighter(records, bytes, Weight), keep: Mutex::new(keep) }
    }

    /// Keeps further records for so long; what is kept already stays as long as it was to stay.
    pub(crate) fn keep_for(&self, keep: Duration) {
        *self.keep.lock() = keep;
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
        let keep = (*self.keep.lock()).min(life.left);
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

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, StatusCode};
    use oncekey_core::Recipe;

    use super::*;

    #[test]
    fn records_with_many_header_lines_take_their_share_and_no_more_stay_than_fit() {
        let mut headers = HeaderMap::new();
        for _ in 0..95 {
            headers.append("x-line", HeaderValue::from_static("a value of some fifty characters, as they are often"));
        }
        let (status, body) = (StatusCode::OK, RecordedBody::Stored("".into()));
        let response = Arc::new(RecordedResponse { status, headers, body, trailers: HeaderMap::new(), trace: None });
        let cache = ReplayCache::new(Duration::from_secs(1), 1024 * 1024);
        let life = Life { left: Duration::from_secs(9), elapsed: Duration::ZERO };
        for n in 0..1000_u16 {
            let mut id = [0; 16];
            id[..2].copy_from_slice(&n.to_be_bytes());
            let fingerprint = Fingerprint::from_parts([0; 32], Recipe::default());
            cache.put(RecordId::from_bytes(id), fingerprint, Arc::clone(&response), life);
        }
        assert!(cache.records.len() <= 1024 * 1024 / (95 * 250), "{} records", cache.records.len());
    }
}
