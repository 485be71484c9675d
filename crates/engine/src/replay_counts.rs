//! Replays are counted in memory and added to the records in batches, so that a replay costs the store no write.

use std::collections::HashMap;

use oncekey_core::RecordId;
use parking_lot::Mutex;

/// Records with replays that aren't written yet; past it, further ones aren't counted until the next flush.
const MAX_RECORDS: usize = 10_000;

#[derive(Default)]
pub(crate) struct ReplayCounts(Mutex<HashMap<RecordId, u32>>);

impl ReplayCounts {
    pub(crate) fn count(&self, id: RecordId) {
        let mut counts = self.0.lock();
        if counts.len() < MAX_RECORDS || counts.contains_key(&id) {
            let count = counts.entry(id).or_insert(0);
            *count = count.saturating_add(1);
        }
    }

    /// The counts since the last call.
    pub(crate) fn take(&self) -> Vec<(RecordId, u32)> {
        std::mem::take(&mut *self.0.lock()).into_iter().collect()
    }
}
