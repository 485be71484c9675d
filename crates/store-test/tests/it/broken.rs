//! A store with one deliberate defect, over the memory store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use oncekey_core::response::RecordedBody;
use oncekey_core::{Namespace, OwnerId, RecordId, RecordedResponse, Scope, Timestamp, Token};
use oncekey_store::{
    Acted, AuditFilter, AuditPage, Claim, Claimed, Cursor, Deed, Filter, Found, Gauges, Operator, Order, Outcome, Page,
    Promise, Recorded, Stats, Store, StoreError, Swept,
};

/// What is wrong with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// A claim that finds a record is granted all the same.
    GrantsTwice,
    /// An outcome is written whatever its token.
    IgnoresTokens,
    /// A claim replaces a record whatever state it is in by now.
    IgnoresStates,
    /// A sweep goes by a clock of its own, years ahead.
    SweepsLive,
    /// Bodies pass through text.
    KeepsTextOnly,
    /// Every page is the first.
    ForgetsCursors,
    /// A key's case is lost.
    FoldsCase,
    /// A retired owner stays alive.
    NeverRetires,
    /// Another source's records of the same value count as well.
    CountsValues,
    /// Lapsed claims count as running.
    CountsLapsed,
    /// A running record is purged.
    PurgesLive,
    /// An order is carried out on what doesn't match its filter.
    IgnoresFilters,
    /// What operators do leaves no trail.
    NotesNothing,
    /// What was refused leaves a line.
    NotesWhatFailed,
}

pub(crate) struct Broken(pub(crate) Arc<dyn Store>, pub(crate) Defect);

impl Broken {
    fn has(&self, defect: Defect) -> bool {
        self.1 == defect
    }

    fn damage(&self, found: Found) -> Found {
        let response = found.response.map(|response| {
            let RecordedBody::Stored(body) = &response.body else { return response };
            let text = String::from_utf8_lossy(body).into_owned();
            let body = if self.has(Defect::KeepsTextOnly) { Bytes::from(text) } else { body.clone() };
            Arc::new(RecordedResponse { body: RecordedBody::Stored(body), ..RecordedResponse::clone(&response) })
        });
        Found { response, ..found }
    }
}

#[async_trait]
impl Store for Broken {
    async fn claim(&self, mut claim: Claim) -> Result<Claimed, StoreError> {
        if self.has(Defect::FoldsCase) {
            let folded = claim.identity.key.as_str().to_ascii_lowercase();
            claim.identity.key = oncekey_core::Key::from_decoded(&folded).expect("still a key");
        }
        if self.has(Defect::IgnoresStates) {
            let found = self.0.read(claim.identity.id()).await?;
            claim.replaces = claim.replaces.zip(found).map(|(replaces, found)| oncekey_store::Replaces {
                token: found.record.token,
                state: found.record.state,
                ..replaces
            });
        }
        match self.0.claim(claim).await? {
            Claimed::Held(found) if self.has(Defect::GrantsTwice) => {
                Ok(Claimed::Granted { attempt: found.record.attempts, now: found.now })
            }
            Claimed::Held(found) => Ok(Claimed::Held(Box::new(self.damage(*found)))),
            granted @ Claimed::Granted { .. } => Ok(granted),
        }
    }

    async fn record(&self, id: RecordId, mut token: Token, outcome: Outcome) -> Result<Recorded, StoreError> {
        if self.has(Defect::IgnoresTokens) {
            token = self.0.read(id).await?.map_or(token, |found| found.record.token);
        }
        self.0.record(id, token, outcome).await
    }

    async fn read(&self, id: RecordId) -> Result<Option<Found>, StoreError> {
        Ok(self.0.read(id).await?.map(|found| self.damage(found)))
    }

    async fn peek(&self, ids: &[RecordId]) -> Result<Vec<Found>, StoreError> {
        self.0.peek(ids).await
    }

    async fn heartbeat(&self, owner: OwnerId, lease: Duration) -> Result<Timestamp, StoreError> {
        self.0.heartbeat(owner, lease).await
    }

    async fn retire(&self, owner: OwnerId) -> Result<(), StoreError> {
        if self.has(Defect::NeverRetires) { Ok(()) } else { self.0.retire(owner).await }
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<Swept, StoreError> {
        let ahead = if self.has(Defect::SweepsLive) { Duration::from_hours(900 * 24) } else { Duration::ZERO };
        self.0.sweep(now.after(ahead), limit).await
    }

    async fn count_scope(&self, namespace: &Namespace, scope: &Scope, limit: u64) -> Result<u64, StoreError> {
        if self.has(Defect::CountsValues) {
            let of_value = Filter { scope: Some(scope.value().to_owned()), ..Filter::default() };
            return Ok((self.0.list(&of_value, None, 1000).await?.records.len() as u64).min(limit));
        }
        self.0.count_scope(namespace, scope, limit).await
    }

    async fn count_replays(&self, replays: &[(RecordId, u32)]) -> Result<(), StoreError> {
        self.0.count_replays(replays).await
    }

    async fn list(&self, filter: &Filter, cursor: Option<Cursor>, limit: u32) -> Result<Page, StoreError> {
        self.0.list(filter, cursor.filter(|_| !self.has(Defect::ForgetsCursors)), limit).await
    }

    async fn operate(&self, ids: &[RecordId], order: &Order) -> Result<Vec<Acted>, StoreError> {
        let mut order = order.clone();
        if self.has(Defect::PurgesLive) && matches!(order.deed, Deed::Purge) {
            for id in ids {
                if let Some(found) = self.0.read(*id).await? {
                    self.0.retire(found.record.owner).await?;
                }
            }
        }
        if self.has(Defect::IgnoresFilters) {
            order.only = None;
        }
        if self.has(Defect::NotesNothing) {
            order.operator = None;
        }
        let acted = self.0.operate(ids, &order).await?;
        if self.has(Defect::NotesWhatFailed)
            && let Some(operator) = &order.operator
            && !acted.contains(&Acted::Done)
        {
            self.0.note_sweep(Swept::default(), operator).await?;
        }
        Ok(acted)
    }

    async fn note_sweep(&self, swept: Swept, operator: &Operator) -> Result<(), StoreError> {
        self.0.note_sweep(swept, operator).await
    }

    async fn audit(&self, filter: &AuditFilter, cursor: Option<Cursor>, limit: u32) -> Result<AuditPage, StoreError> {
        self.0.audit(filter, cursor.filter(|_| !self.has(Defect::ForgetsCursors)), limit).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.0.stats().await
    }

    async fn gauges(&self) -> Result<Gauges, StoreError> {
        let mut gauges = self.0.gauges().await?;
        if self.has(Defect::CountsLapsed) {
            let lapsed = gauges.stats.records.insert("unknown", 0).unwrap_or_default();
            *gauges.stats.records.entry("processing").or_default() += lapsed;
        }
        Ok(gauges)
    }

    async fn promise(&self) -> Result<Promise, StoreError> {
        self.0.promise().await
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}
