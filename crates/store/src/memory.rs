//! The memory store: one map behind one mutex.
//!
//! It serves tests, trials and `memory:`. It keeps every promise of the trait but durability: what it holds is gone when
//! the process ends. What a write makes of a record is `change`'s to say; the map and its orders are in `memory/table`.

mod table;
mod trail;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oncekey_core::{Event, Namespace, OwnerId, PromiseClass, RecordId, Scope, Timestamp, Token};
use parking_lot::Mutex;

use crate::change::{self, OnClaim, OnOutcome};
use crate::{
    Acted, AuditFilter, AuditLine, AuditPage, Change, Claim, Claimed, Clock, Cursor, Filter, Found, Gauges, Listed,
    Operator, Order, Outcome, Page, Promise, Recorded, Stats, Store, StoreError, Swept, SystemClock, TOGETHER,
};
use table::{Kept, Table};

/// Keeps records in the memory of this process. Nothing survives.
///
/// Share it by `Arc`; all handles see the same records. No call waits for anything but the mutex, and each has had its
/// whole effect when its future is first polled.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    table: Mutex<Table>,
}

impl MemoryStore {
    /// An empty store whose time is `clock`'s.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, table: Mutex::new(Table::default()) }
    }
}

impl Default for MemoryStore {
    /// An empty store on the machine's clocks.
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

fn found(table: &Table, kept: &Kept, now: Timestamp) -> Found {
    Found {
        record: kept.record.clone(),
        response: kept.response.clone(),
        owner_alive: table.is_alive(kept.record.owner, now),
        now,
    }
}

/// The number before which a part begins.
fn position(cursor: Option<Cursor>) -> Result<u64, StoreError> {
    let Some(Cursor(text)) = cursor else { return Ok(u64::MAX) };
    text.parse().map_err(|_| StoreError::NotApplied("no cursor of this store".into()))
}

#[async_trait]
impl Store for MemoryStore {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let id = claim.identity.id();
        let mut table = self.table.lock();
        let now = self.clock.now();
        let kept = table.get(id);
        if kept.is_some_and(|kept| kept.record.identity != claim.identity) {
            return Err(StoreError::Corrupt(format!("two operations share the id {id}").into()));
        }
        let there = kept.map(|kept| (&kept.record, table.is_alive(kept.record.owner, now)));
        match change::on_claim(there, &claim, now) {
            OnClaim::Put(record) => {
                let attempt = record.attempts;
                table.put_claim(id, *record);
                Ok(Claimed::Granted { attempt, now })
            }
            OnClaim::Own { attempt } => Ok(Claimed::Granted { attempt, now }),
            OnClaim::Held => match kept {
                Some(kept) => Ok(Claimed::Held(Box::new(found(&table, kept, now)))),
                None => Err(StoreError::NotApplied("no record, and the claim was refused".into())),
            },
        }
    }

    async fn record(&self, id: RecordId, token: Token, outcome: Outcome) -> Result<Recorded, StoreError> {
        if !matches!(outcome.event, Event::Complete | Event::Fail | Event::WriteOff) {
            return Err(StoreError::NotApplied(format!("{:?} doesn't end a claim", outcome.event).into()));
        }
        let mut table = self.table.lock();
        let now = self.clock.now();
        let Some(kept) = table.get(id) else { return Ok(Recorded::Fenced(None)) };
        let status = outcome.response.as_ref().map(|response| response.status.as_u16());
        match change::on_outcome(&kept.record, token, outcome.event, status, now) {
            OnOutcome::Put(record) => {
                let expires = record.times.expires.unwrap_or(now);
                table.put(id, *record, outcome.response);
                Ok(Recorded::Written { expires, now })
            }
            OnOutcome::Already(expires) => Ok(Recorded::Written { expires, now }),
            OnOutcome::Fenced => Ok(Recorded::Fenced(Some(Box::new(found(&table, kept, now))))),
        }
    }

    async fn read(&self, id: RecordId) -> Result<Option<Found>, StoreError> {
        let table = self.table.lock();
        let now = self.clock.now();
        Ok(table.get(id).map(|kept| found(&table, kept, now)))
    }

    async fn peek(&self, ids: &[RecordId]) -> Result<Vec<Found>, StoreError> {
        let table = self.table.lock();
        let now = self.clock.now();
        let kept = ids.iter().filter_map(|id| table.get(*id));
        Ok(kept.map(|kept| Found { response: None, ..found(&table, kept, now) }).collect())
    }

    async fn heartbeat(&self, owner: OwnerId, lease: Duration) -> Result<Timestamp, StoreError> {
        let mut table = self.table.lock();
        let now = self.clock.now();
        table.owners.insert(owner, now.after(lease));
        Ok(now)
    }

    async fn retire(&self, owner: OwnerId) -> Result<(), StoreError> {
        self.table.lock().owners.remove(&owner);
        Ok(())
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<Swept, StoreError> {
        Ok(self.table.lock().sweep(now, limit))
    }

    async fn count_scope(&self, namespace: &Namespace, scope: &Scope, limit: u64) -> Result<u64, StoreError> {
        Ok(self.table.lock().count_scope(namespace, scope).min(limit))
    }

    async fn count_replays(&self, replays: &[(RecordId, u32)]) -> Result<(), StoreError> {
        let mut table = self.table.lock();
        for (id, count) in replays {
            table.add_replays(*id, *count);
        }
        Ok(())
    }

    async fn list(&self, filter: &Filter, cursor: Option<Cursor>, limit: u32) -> Result<Page, StoreError> {
        let table = self.table.lock();
        let now = self.clock.now();
        let before = position(cursor)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut page = Page { records: Vec::new(), next: None };
        let mut last = None;
        for (seq, kept) in table.newest_before(before) {
            let owner_alive = table.is_alive(kept.record.owner, now);
            if !filter.matches(&kept.record, owner_alive, now) {
                continue;
            }
            if page.records.len() == limit {
                page.next = last.map(|seq: u64| Cursor(seq.to_string()));
                break;
            }
            page.records.push(Listed { record: kept.record.clone(), owner_alive, now });
            last = Some(seq);
        }
        Ok(page)
    }

    async fn operate(&self, ids: &[RecordId], order: &Order) -> Result<Vec<Acted>, StoreError> {
        if ids.len() > TOGETHER {
            return Err(StoreError::NotApplied("too many records for one order".into()));
        }
        let mut table = self.table.lock();
        let now = self.clock.now();
        Ok(ids.iter().map(|id| table.operate(*id, order, now)).collect())
    }

    async fn note_sweep(&self, swept: Swept, operator: &Operator) -> Result<(), StoreError> {
        let mut table = self.table.lock();
        let change = Change::Swept { deleted: swept.deleted, lapsed: swept.lapsed };
        table.trail.add(AuditLine { at: self.clock.now(), operator: operator.clone(), change });
        Ok(())
    }

    async fn audit(&self, filter: &AuditFilter, cursor: Option<Cursor>, limit: u32) -> Result<AuditPage, StoreError> {
        let before = position(cursor)?;
        Ok(self.table.lock().trail.page(filter, before, usize::try_from(limit).unwrap_or(usize::MAX)))
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        let now = self.clock.now();
        Ok(self.table.lock().gauges(now).stats)
    }

    async fn gauges(&self) -> Result<Gauges, StoreError> {
        let now = self.clock.now();
        Ok(self.table.lock().gauges(now))
    }

    async fn promise(&self) -> Result<Promise, StoreError> {
        Ok(Promise {
            class: PromiseClass::BestEffort,
            shortfalls: vec!["the store `memory:` forgets every record when the process ends".to_owned()],
            declared: BTreeMap::new(),
        })
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}
