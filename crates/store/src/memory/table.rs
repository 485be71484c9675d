//! The records of the memory store and the orders they are kept in. Knows nothing of the trait or the clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use oncekey_core::response::RecordedBody;
use oncekey_core::{Namespace, OwnerId, Record, RecordId, RecordedResponse, Scope, State, Timestamp};

use super::trail::Trail;
use crate::change::{self, OnOrder};
use crate::{Acted, Deed, Gauges, Order, Resolution, Stats, Swept};

/// A record with its response.
pub(super) struct Kept {
    pub(super) record: Record,
    pub(super) response: Option<Arc<RecordedResponse>>,
    /// The number of its governing claim; listings go by it.
    seq: u64,
}

impl Kept {
    /// Roughly the bytes it takes: its texts, its response and the record's own fields.
    pub(super) fn size(&self) -> u64 {
        let identity = &self.record.identity;
        let texts = identity.namespace.as_str().len()
            + identity.scope.source().len()
            + identity.scope.value().len()
            + identity.key.as_str().len();
        let response = self.response.as_ref().map_or(0, |response| {
            let head: usize = response.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
            head + match &response.body {
                RecordedBody::Stored(body) => body.len(),
                RecordedBody::NotStored => 0,
            }
        });
        (size_of::<Self>() + texts + response) as u64
    }
}

fn scope_of(record: &Record) -> (Namespace, Scope) {
    (record.identity.namespace.clone(), record.identity.scope.clone())
}

/// All records. The orders make a sweep step and a page cost what they return, not what is stored.
#[derive(Default)]
pub(super) struct Table {
    records: HashMap<RecordId, Kept>,
    by_claim: BTreeMap<u64, RecordId>,
    by_expiry: BTreeSet<(Timestamp, RecordId)>,
    processing: BTreeSet<RecordId>,
    /// Until when each owner's heartbeat is valid.
    pub(super) owners: HashMap<OwnerId, Timestamp>,
    claims: u64,
    /// Records as stored, by state, and the bytes of all of them.
    counts: BTreeMap<&'static str, u64>,
    bytes: u64,
    /// What operators did.
    pub(super) trail: Trail,
    /// Records by scope, once anyone has asked: nobody else pays for it.
    by_scope: Option<HashMap<(Namespace, Scope), u64>>,
}

impl Table {
    pub(super) fn get(&self, id: RecordId) -> Option<&Kept> {
        self.records.get(&id)
    }

    pub(super) fn is_alive(&self, owner: OwnerId, now: Timestamp) -> bool {
        self.owners.get(&owner).is_some_and(|until| now < *until)
    }

    /// Stores a freshly claimed record in place of what was there, as the newest claim.
    pub(super) fn put_claim(&mut self, id: RecordId, record: Record) {
        self.remove(id);
        self.claims += 1;
        self.insert(id, Kept { record, response: None, seq: self.claims });
    }

    /// Changes a record that is there.
    pub(super) fn put(&mut self, id: RecordId, record: Record, response: Option<Arc<RecordedResponse>>) {
        if let Some(kept) = self.remove(id) {
            self.insert(id, Kept { record, response, seq: kept.seq });
        }
    }

    pub(super) fn remove(&mut self, id: RecordId) -> Option<Kept> {
        let kept = self.records.remove(&id)?;
        if let Some(counts) = &mut self.by_scope {
            let scope = scope_of(&kept.record);
            if let Some(count) = counts.get_mut(&scope) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&scope);
                }
            }
        }
        *self.counts.entry(kept.record.state.name()).or_default() -= 1;
        self.bytes -= kept.size();
        self.by_claim.remove(&kept.seq);
        self.processing.remove(&id);
        if let Some(expires) = kept.record.times.expires {
            self.by_expiry.remove(&(expires, id));
        }
        Some(kept)
    }

    fn insert(&mut self, id: RecordId, kept: Kept) {
        if let Some(counts) = &mut self.by_scope {
            *counts.entry(scope_of(&kept.record)).or_default() += 1;
        }
        *self.counts.entry(kept.record.state.name()).or_default() += 1;
        self.bytes += kept.size();
        self.by_claim.insert(kept.seq, id);
        if kept.record.state == State::Processing {
            self.processing.insert(id);
        }
        if let Some(expires) = kept.record.times.expires {
            self.by_expiry.insert((expires, id));
        }
        self.records.insert(id, kept);
    }

    pub(super) fn count_scope(&mut self, namespace: &Namespace, scope: &Scope) -> u64 {
        let records = &self.records;
        let counts = self.by_scope.get_or_insert_with(|| {
            let mut counts: HashMap<_, u64> = HashMap::new();
            for kept in records.values() {
                *counts.entry(scope_of(&kept.record)).or_default() += 1;
            }
            counts
        });
        counts.get(&(namespace.clone(), scope.clone())).copied().unwrap_or(0)
    }

    pub(super) fn add_replays(&mut self, id: RecordId, count: u32) {
        if let Some(kept) = self.records.get_mut(&id) {
            kept.record.replays = kept.record.replays.saturating_add(u64::from(count));
        }
    }

    /// Carries out an order on one record.
    pub(super) fn operate(&mut self, id: RecordId, order: &Order, now: Timestamp) -> Acted {
        let Some(kept) = self.get(id) else { return Acted::NotFound };
        let line = match change::on_order(&kept.record, self.is_alive(kept.record.owner, now), order, now) {
            OnOrder::Put(record, line) => {
                let response = match &order.deed {
                    Deed::Resolve(Resolution::Completed { response, .. }) => Some(Arc::clone(response)),
                    Deed::Resolve(Resolution::Failed) | Deed::Purge => None,
                };
                self.put(id, *record, response);
                line
            }
            OnOrder::Delete(line) => {
                self.remove(id);
                line
            }
            OnOrder::Answer(answer) => return answer,
        };
        if let Some(line) = line {
            self.trail.add(line);
        }
        Acted::Done
    }

    /// Records from the newest claim to the oldest, those before claim number `seq`.
    pub(super) fn newest_before(&self, seq: u64) -> impl Iterator<Item = (u64, &Kept)> {
        self.by_claim.range(..seq).rev().filter_map(|(seq, id)| Some((*seq, self.records.get(id)?)))
    }

    /// Costs what is `processing`, not what is stored.
    pub(super) fn gauges(&self, now: Timestamp) -> Gauges {
        let mut records: BTreeMap<_, _> = State::ALL.map(|state| (state.name(), 0)).into();
        records.extend(&self.counts);
        let (mut lapsed, mut oldest) = (0, None);
        for record in self.processing.iter().filter_map(|id| Some(&self.records.get(id)?.record)) {
            if change::is_live(record, self.is_alive(record.owner, now), now) {
                oldest = oldest.max(Some(now.since(record.times.started)));
            } else {
                lapsed += 1;
            }
        }
        *records.entry(State::Processing.name()).or_default() -= lapsed;
        *records.entry(State::Unknown.name()).or_default() += lapsed;
        let first_expired = self.by_expiry.first().map(|(expires, _)| *expires).filter(|expires| *expires <= now);
        Gauges {
            stats: Stats { records, bytes: self.bytes },
            oldest_processing: oldest,
            oldest_expired: first_expired.map(|expires| now.since(expires)),
        }
    }

    /// Marks what lapsed, then deletes what expired, so that a claim that lapsed long ago goes in one step.
    pub(super) fn sweep(&mut self, now: Timestamp, limit: u32) -> Swept {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let lapsed: Vec<(RecordId, Record)> = self
            .processing
            .iter()
            .filter_map(|id| {
                let record = &self.records.get(id)?.record;
                Some((*id, change::on_lapse(record, self.is_alive(record.owner, now), now)?))
            })
            .take(limit)
            .collect();
        let marked = lapsed.len();
        for (id, record) in lapsed {
            self.put(id, record, None);
        }
        let expired: Vec<RecordId> =
            self.by_expiry.iter().take_while(|(expires, _)| *expires <= now).take(limit).map(|(_, id)| *id).collect();
        for id in &expired {
            self.remove(*id);
        }
        self.trail.shorten(now);
        // An owner without a heartbeat and one whose heartbeat has lapsed are the same.
        self.owners.retain(|_, until| now < *until);
        let more = marked == limit || expired.len() == limit;
        Swept { deleted: expired.len() as u64, lapsed: marked as u64, more }
    }
}
