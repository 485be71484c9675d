//! Whether a scope has room for another record (`max_records_per_scope`), asked before anything is claimed.

use oncekey_core::{Standing, standing};
use oncekey_store::Replaces;
use tokio::time::timeout;

use super::Lead;
use crate::quota::Quota;

/// What a leader may do as far as its scope's quota goes.
pub(super) enum Room {
    /// Claim.
    Free,
    /// Nothing: the claim would make a record too many.
    None,
    /// The store doesn't say.
    Unavailable,
}

impl<A: Send + 'static> Lead<A> {
    /// Only a new record needs room: what there is of the operation answers it, or is tried again, however many records its
    /// scope has.
    pub(super) async fn room(&self, replaces: Option<&Replaces>) -> Room {
        let Some(quota) = self.node.quota.as_ref().filter(|_| replaces.is_none_or(|seen| seen.expired)) else {
            return Room::Free;
        };
        match timeout(self.node.settings.store_timeout, self.ask_for_room(quota)).await {
            Ok(Ok(true)) => Room::Free,
            Ok(Ok(false)) => Room::None,
            Ok(Err(error)) => {
                tracing::warn!(operation = %self.leading.id, %error, "the records of a scope could not be counted");
                Room::Unavailable
            }
            Err(_) => {
                tracing::warn!(operation = %self.leading.id, "counting a scope's records took longer than store_timeout");
                Room::Unavailable
            }
        }
    }

    async fn ask_for_room(&self, quota: &Quota) -> Result<bool, oncekey_store::StoreError> {
        let identity = &self.call().identity;
        if quota.has_room(&*self.node.store, identity, self.node.clock.elapsed()).await? {
            return Ok(true);
        }
        let asked = self.node.clock.elapsed();
        let found = self.node.store.read(self.leading.id).await?;
        Ok(found.is_some_and(|found| {
            let trusted = self.node.trusts_expiry_at(found.now, asked);
            standing(&found.record, found.now, found.owner_alive, trusted) != Standing::Absent
        }))
    }

    /// Counts the record that this leader's claim has made.
    pub(super) fn claimed_afresh(&self) {
        if let Some(quota) = &self.node.quota {
            quota.add(&self.call().identity);
        }
    }
}
