//! The store's face: hands each call to a writer or a connection, and judges what a write met.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use oncekey_core::{Event, Namespace, OwnerId, RecordId, Scope, Timestamp, Token};
use oncekey_store::change::{self, OnClaim, OnOutcome};
use oncekey_store::{
    Acted, AuditFilter, AuditPage, Claim, Claimed, Cursor, Filter, Found, Gauges, Operator, Order, Outcome, Page,
    Promise, Recorded, Stats, Store, StoreError, Swept,
};
use tokio::sync::OnceCell;

use crate::claims::{MakeClaim, Tried};
use crate::error::Failure;
use crate::outcomes::RecordOutcome;
use crate::reader::Reader;
use crate::session::{Server, Session};
use crate::writer::Writer;
use crate::{
    PostgresOptions, audit, gauges, listing, lookup, operating, owners, promise, replays, schema, scopes, sweep,
};

/// How often a write is made again because the record changed between the write and the look at what was in its way.
const TRIES: u32 = 5;

/// Records in a PostgreSQL database. Dropping the last handle lets what was handed over be written, as long as the runtime
/// lives.
pub struct PostgresStore {
    claims: Writer<MakeClaim>,
    outcomes: Writer<RecordOutcome>,
    lookups: Vec<Arc<Session>>,
    readers: Vec<Reader>,
    next: AtomicUsize,
    /// For what may scan or wait: nothing that a request needs, nor the heartbeat, may stand behind it.
    scans: Session,
    place: String,
    /// Set once the index that counting goes by is there.
    scopes_indexed: OnceCell<()>,
}

impl PostgresStore {
    /// Connects to a database that [`migrate`](crate::migrate) has prepared. Needs a Tokio runtime, on which it keeps its
    /// tasks.
    ///
    /// Fails as `Misconfigured` if there are no tables, if they aren't ours or of this version (the source is a
    /// [`SchemaError`](crate::SchemaError) then), or if the server refuses the role; as `NotApplied` if it can't be reached.
    pub async fn open(options: PostgresOptions) -> Result<Self, StoreError> {
        let place = options.place();
        let lookups = options.connections.saturating_sub(3).max(1);
        let server = Server::new(options).map_err(Failure::while_opening)?;
        let scans = Session::patient(&server);
        schema::check(&scans).await.map_err(Failure::while_opening)?;
        let lookups: Vec<_> = (0..lookups).map(|_| Arc::new(Session::new(&server))).collect();
        Ok(Self {
            claims: Writer::start(&server),
            outcomes: Writer::start(&server),
            readers: lookups.iter().cloned().map(Reader::start).collect(),
            lookups,
            next: AtomicUsize::new(0),
            scans,
            place,
            scopes_indexed: OnceCell::new(),
        })
    }

    /// What transactions beside the store stand on.
    #[cfg(feature = "tower")]
    pub(crate) fn server(&self) -> &Arc<Server> {
        self.scans.server()
    }

    /// A connection for a short statement.
    fn lookups(&self) -> &Session {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.lookups.get(next % self.lookups.len().max(1)).map_or(&self.scans, |session| &**session)
    }

    async fn found(&self, id: RecordId) -> Result<Option<Found>, StoreError> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let found = match self.readers.get(next % self.readers.len().max(1)) {
            Some(reader) => reader.read(id).await,
            None => lookup::read(&self.scans, id).await,
        };
        found.map_err(Failure::not_applied)
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.place).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let (id, claim) = (claim.identity.id(), Arc::new(claim));
        for _ in 0..TRIES {
            let met = match self.claims.run(MakeClaim::new(claim.clone())).await? {
                Some(Tried::Granted(granted)) => {
                    return Ok(Claimed::Granted { attempt: granted.attempt, now: granted.now });
                }
                Some(Tried::Met(found)) => Some(*found),
                None => self.found(id).await?,
            };
            // Gone in the moment between: then the claim is a first one, and made again.
            let Some(found) = met else { continue };
            if found.record.identity != claim.identity {
                return Err(Failure::Corrupt { id, what: "two operations share the id" }.not_applied());
            }
            match change::on_claim(Some((&found.record, found.owner_alive)), &claim, found.now) {
                OnClaim::Own { attempt } => return Ok(Claimed::Granted { attempt, now: found.now }),
                OnClaim::Held => return Ok(Claimed::Held(Box::new(found))),
                // It could be replaced by now.
                OnClaim::Put(_) => {}
            }
        }
        Err(Failure::Restless.not_applied())
    }

    async fn record(&self, id: RecordId, token: Token, outcome: Outcome) -> Result<Recorded, StoreError> {
        let event: Event = outcome.event;
        let status = outcome.response.as_ref().map(|response| response.status.as_u16());
        for _ in 0..TRIES {
            let work = RecordOutcome::new(id, token, outcome.clone());
            let work =
                work.ok_or_else(|| Failure::Refused("only complete, fail and write-off end a claim").not_applied());
            if let Some(ended) = self.outcomes.run(work?).await? {
                return Ok(Recorded::Written { expires: ended.expires, now: ended.now });
            }
            let Some(found) = self.found(id).await? else { return Ok(Recorded::Fenced(None)) };
            match change::on_outcome(&found.record, token, event, status, found.now) {
                OnOutcome::Already(expires) => return Ok(Recorded::Written { expires, now: found.now }),
                OnOutcome::Fenced => return Ok(Recorded::Fenced(Some(Box::new(found)))),
                OnOutcome::Put(_) => {}
            }
        }
        Err(Failure::Restless.not_applied())
    }

    async fn read(&self, id: RecordId) -> Result<Option<Found>, StoreError> {
        self.found(id).await
    }

    async fn peek(&self, ids: &[RecordId]) -> Result<Vec<Found>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        lookup::peek(self.lookups(), ids).await.map_err(Failure::not_applied)
    }

    async fn heartbeat(&self, owner: OwnerId, lease: Duration) -> Result<Timestamp, StoreError> {
        owners::heartbeat(self.lookups(), owner, lease).await.map_err(Failure::of_write)
    }

    async fn retire(&self, owner: OwnerId) -> Result<(), StoreError> {
        owners::retire(self.lookups(), owner).await.map_err(Failure::of_write)
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<Swept, StoreError> {
        sweep::sweep(&self.scans, now, limit).await.map_err(Failure::of_write)
    }

    async fn count_scope(&self, namespace: &Namespace, scope: &Scope, limit: u64) -> Result<u64, StoreError> {
        let server = self.scans.server();
        let indexed = self.scopes_indexed.get_or_try_init(|| scopes::index(server)).await;
        indexed.map_err(Failure::not_applied)?;
        scopes::count(self.lookups(), namespace, scope, limit).await.map_err(Failure::not_applied)
    }

    async fn count_replays(&self, replays: &[(RecordId, u32)]) -> Result<(), StoreError> {
        if replays.is_empty() {
            return Ok(());
        }
        replays::count(&self.scans, replays).await.map_err(Failure::of_write)
    }

    async fn list(&self, filter: &Filter, cursor: Option<Cursor>, limit: u32) -> Result<Page, StoreError> {
        listing::list(&self.scans, filter, cursor, limit).await.map_err(Failure::not_applied)
    }

    async fn operate(&self, ids: &[RecordId], order: &Order) -> Result<Vec<Acted>, StoreError> {
        operating::operate(&self.scans, ids, order).await.map_err(Failure::of_write)
    }

    async fn note_sweep(&self, swept: Swept, operator: &Operator) -> Result<(), StoreError> {
        audit::note_sweep(&self.scans, swept, operator).await.map_err(Failure::of_write)
    }

    async fn audit(&self, filter: &AuditFilter, cursor: Option<Cursor>, limit: u32) -> Result<AuditPage, StoreError> {
        audit::list(&self.scans, filter, cursor, limit).await.map_err(Failure::not_applied)
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        listing::stats(&self.scans).await.map_err(Failure::not_applied)
    }

    async fn gauges(&self) -> Result<Gauges, StoreError> {
        gauges::read(&self.scans).await.map_err(Failure::not_applied)
    }

    async fn promise(&self) -> Result<Promise, StoreError> {
        let settings = promise::read(self.lookups()).await.map_err(Failure::not_applied)?;
        Ok(settings.promise(&self.scans.server().options().declared))
    }

    fn describe(&self) -> String {
        self.place.clone()
    }
}
