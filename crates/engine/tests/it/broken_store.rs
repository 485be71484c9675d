//! Stores that break a rule, for the negative controls: a check that passes on one of them checks nothing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oncekey_core::{Namespace, OwnerId, RecordId, Scope, Timestamp, Token};
use oncekey_store::{
    Acted, AuditFilter, AuditPage, Claim, Claimed, Cursor, Filter, Found, Gauges, Operator, Order, Outcome, Page,
    Promise, Recorded, Stats, Store, StoreError, Swept,
};

/// What a broken store does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breaks {
    /// Grants every claim (E1).
    Claims,
    /// Acknowledges outcomes that it doesn't write (E2).
    Outcomes,
    /// Takes outcomes under any token (E4).
    Tokens,
    /// Reports every owner as alive (E4).
    Lapses,
}

pub(crate) struct BrokenStore(pub(crate) Arc<dyn Store>, pub(crate) Breaks);

impl BrokenStore {
    fn report(&self, found: Found) -> Found {
        Found { owner_alive: found.owner_alive || self.1 == Breaks::Lapses, ..found }
    }
}

#[async_trait]
impl Store for BrokenStore {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        match self.0.claim(claim).await? {
            Claimed::Held(found) if self.1 == Breaks::Claims => Ok(Claimed::Granted { attempt: 1, now: found.now }),
            Claimed::Held(found) => Ok(Claimed::Held(Box::new(self.report(*found)))),
            granted @ Claimed::Granted { .. } => Ok(granted),
        }
    }

    async fn record(&self, id: RecordId, token: Token, outcome: Outcome) -> Result<Recorded, StoreError> {
        let Some(found) = self.0.read(id).await? else { return Ok(Recorded::Fenced(None)) };
        match self.1 {
            Breaks::Outcomes => {
                let expires = found.now.after(Duration::from_hours(1));
                Ok(Recorded::Written { expires, now: found.now })
            }
            Breaks::Tokens => self.0.record(id, found.record.token, outcome).await,
            Breaks::Claims | Breaks::Lapses => self.0.record(id, token, outcome).await,
        }
    }

    async fn read(&self, id: RecordId) -> Result<Option<Found>, StoreError> {
        Ok(self.0.read(id).await?.map(|found| self.report(found)))
    }

    async fn peek(&self, ids: &[RecordId]) -> Result<Vec<Found>, StoreError> {
        Ok(self.0.peek(ids).await?.into_iter().map(|found| self.report(found)).collect())
    }

    async fn heartbeat(&self, owner: OwnerId, lease: Duration) -> Result<Timestamp, StoreError> {
        self.0.heartbeat(owner, lease).await
    }

    async fn retire(&self, owner: OwnerId) -> Result<(), StoreError> {
        self.0.retire(owner).await
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<Swept, StoreError> {
        self.0.sweep(now, limit).await
    }

    async fn count_scope(&self, namespace: &Namespace, scope: &Scope, limit: u64) -> Result<u64, StoreError> {
        self.0.count_scope(namespace, scope, limit).await
    }

    async fn count_replays(&self, replays: &[(RecordId, u32)]) -> Result<(), StoreError> {
        self.0.count_replays(replays).await
    }

    async fn list(&self, filter: &Filter, cursor: Option<Cursor>, limit: u32) -> Result<Page, StoreError> {
        self.0.list(filter, cursor, limit).await
    }

    async fn operate(&self, ids: &[RecordId], order: &Order) -> Result<Vec<Acted>, StoreError> {
        self.0.operate(ids, order).await
    }

    async fn note_sweep(&self, swept: Swept, operator: &Operator) -> Result<(), StoreError> {
        self.0.note_sweep(swept, operator).await
    }

    async fn audit(&self, filter: &AuditFilter, cursor: Option<Cursor>, limit: u32) -> Result<AuditPage, StoreError> {
        self.0.audit(filter, cursor, limit).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.0.stats().await
    }

    async fn gauges(&self) -> Result<Gauges, StoreError> {
        self.0.gauges().await
    }

    async fn promise(&self) -> Result<Promise, StoreError> {
        self.0.promise().await
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}
