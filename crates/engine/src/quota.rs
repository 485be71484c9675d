//! How many records each scope has, approximately: what the store counted at most a second ago, and what this node has added
//! since. Other nodes' claims are seen with the next count, so that several nodes together may go over by what they claim in
//! a second.

use std::time::Duration;

use oncekey_core::{Identity, Namespace, Scope};
use oncekey_store::{Store, StoreError};
use quick_cache::sync::Cache;

/// How long a count holds.
const HOLDS: Duration = Duration::from_secs(1);

/// Scopes whose counts are kept. One that is left out is counted anew.
const SCOPES: usize = 10_000;

/// The counts of the scopes that claim at present.
pub(crate) struct Quota {
    most: u64,
    counts: Cache<(Namespace, Scope), Count>,
}

#[derive(Clone, Copy)]
struct Count {
    records: u64,
    /// The node's elapsed time from before the store was asked.
    asked: Duration,
}

impl Quota {
    pub(crate) fn new(most: u64) -> Self {
        Self { most, counts: Cache::new(SCOPES) }
    }

    /// Whether the scope may have another record. Asks the store at most once a second for a scope, for a bounded count.
    pub(crate) async fn has_room(
        &self,
        store: &dyn Store,
        identity: &Identity,
        elapsed: Duration,
    ) -> Result<bool, StoreError> {
        let key = key(identity);
        let known = self.counts.get(&key);
        if let Some(known) = known.filter(|known| elapsed.saturating_sub(known.asked) < HOLDS) {
            return Ok(known.records < self.most);
        }
        if let Some(known) = known {
            // Those that come while the store counts go by what was known before.
            self.counts.insert(key.clone(), Count { asked: elapsed, ..known });
        }
        let counted = store.count_scope(&identity.namespace, &identity.scope, self.most).await;
        match counted {
            Ok(records) => {
                self.counts.insert(key, Count { records, asked: elapsed });
                Ok(records < self.most)
            }
            Err(error) => {
                self.counts.remove(&key);
                Err(error)
            }
        }
    }

    /// A record was made here.
    pub(crate) fn add(&self, identity: &Identity) {
        let key = key(identity);
        if let Some(known) = self.counts.get(&key) {
            self.counts.insert(key, Count { records: known.records.saturating_add(1), ..known });
        }
    }
}

fn key(identity: &Identity) -> (Namespace, Scope) {
    (identity.namespace.clone(), identity.scope.clone())
}
