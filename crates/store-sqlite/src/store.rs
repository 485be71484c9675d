//! The store's face: hands each call to the writer or the readers.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use oncekey_core::{Namespace, OwnerId, RecordId, Scope, Timestamp, Token};
use oncekey_store::{
    Acted, AuditFilter, AuditPage, Claim, Claimed, Clock, Cursor, Filter, Found, Gauges, Operator, Order, Outcome,
    Page, Promise, Recorded, Stats, Store, StoreError, Swept,
};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::audit::NoteSweep;
use crate::claims::MakeClaim;
use crate::connection::{self, Place};
use crate::error::Failure;
use crate::operating::Operate;
use crate::outcomes::RecordOutcome;
use crate::owners::{Heartbeat, Retire};
use crate::promise::ReadSettings;
use crate::reader::Readers;
use crate::replays::CountReplays;
use crate::scopes::IndexScopes;
use crate::sweep::Sweep;
use crate::writer::Writer;
use crate::{SqliteOptions, audit, gauges, listing, lookup, schema, scopes};

/// Records in an SQLite database. Dropping the last handle finishes what was handed over, which blocks for about a commit.
pub struct SqliteStore {
    // In this order: the writer's connection is the last to be closed, and leaves no write-ahead log behind.
    pub(crate) lookups: Arc<Readers>,
    scans: Readers,
    /// Started by the first query of the application's.
    pub(crate) queries: OnceCell<Readers>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) place: Place,
    pub(crate) options: SqliteOptions,
    /// The records that are claimed by open transactions.
    pub(crate) in_use: Arc<Mutex<HashSet<RecordId>>>,
    commits: Arc<AtomicU64>,
    /// Set once the index that counting goes by is there.
    scopes_indexed: OnceCell<()>,
}

impl SqliteStore {
    /// Opens a database that [`migrate`](crate::migrate) has made. Blocks on the disk.
    ///
    /// Fails as `Misconfigured` if there is none, if it isn't ours or isn't of this version (the source is a
    /// [`SchemaError`](crate::SchemaError) then), or if it can't be written; as `NotApplied` if another process keeps it
    /// busy.
    pub fn open(options: SqliteOptions, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_file(options, clock).map_err(Failure::while_opening)
    }

    fn open_file(options: SqliteOptions, clock: Arc<dyn Clock>) -> Result<Self, Failure> {
        connection::check_library()?;
        let place = schema::find(&options)?;
        let commits = Arc::new(AtomicU64::new(0));
        // Two, so that a large body doesn't hold up every other replay.
        let lookups = Arc::new(Readers::start(&place, &options, "oncekey-reader", 2)?);
        let scans = Readers::start(&place, &options, "oncekey-scanner", 1)?;
        let writer = Arc::new(Writer::start(place.clone(), options.clone(), clock.clone(), commits.clone())?);
        let (queries, scopes_indexed) = (OnceCell::new(), OnceCell::new());
        let in_use = Arc::default();
        Ok(Self { lookups, scans, queries, writer, clock, place, options, in_use, commits, scopes_indexed })
    }

    /// Transactions committed by this handle so far: what batching saves, beside the number of calls.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Reads the response of a record that the writer found without it. The record may have changed since; what is read
    /// is then the newer truth. `None` if it is gone.
    async fn with_response(&self, found: Found) -> Result<Option<Found>, StoreError> {
        if found.response.is_some() || found.record.response_status.is_none() {
            return Ok(Some(found));
        }
        self.read(found.record.identity.id()).await
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.place.path).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        loop {
            let found = match self.writer.run(MakeClaim::new(claim.clone())).await? {
                Claimed::Held(found) => *found,
                granted @ Claimed::Granted { .. } => return Ok(granted),
            };
            // Purged in the moment between: then the claim is a first one, and made again.
            if let Some(found) = self.with_response(found).await? {
                return Ok(Claimed::Held(Box::new(found)));
            }
        }
    }

    async fn record(&self, id: RecordId, token: Token, outcome: Outcome) -> Result<Recorded, StoreError> {
        match self.writer.run(RecordOutcome { id, token, outcome }).await? {
            Recorded::Fenced(Some(found)) => Ok(Recorded::Fenced(self.with_response(*found).await?.map(Box::new))),
            other => Ok(other),
        }
    }

    async fn read(&self, id: RecordId) -> Result<Option<Found>, StoreError> {
        let clock = self.clock.clone();
        self.lookups.run(move |connection| lookup::read(connection, id, clock.now())).await
    }

    async fn peek(&self, ids: &[RecordId]) -> Result<Vec<Found>, StoreError> {
        let (clock, ids) = (self.clock.clone(), ids.to_vec());
        self.lookups.run(move |connection| lookup::peek(connection, &ids, clock.now())).await
    }

    async fn heartbeat(&self, owner: OwnerId, lease: Duration) -> Result<Timestamp, StoreError> {
        self.writer.run(Heartbeat { owner, lease }).await
    }

    async fn retire(&self, owner: OwnerId) -> Result<(), StoreError> {
        self.writer.run(Retire(owner)).await
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<Swept, StoreError> {
        self.writer.run(Sweep { now, limit }).await
    }

    async fn count_scope(&self, namespace: &Namespace, scope: &Scope, limit: u64) -> Result<u64, StoreError> {
        self.scopes_indexed.get_or_try_init(|| self.writer.run(IndexScopes)).await?;
        let (namespace, scope) = (namespace.clone(), scope.clone());
        self.scans.run(move |connection| scopes::count(connection, &namespace, &scope, limit)).await
    }

    async fn count_replays(&self, replays: &[(RecordId, u32)]) -> Result<(), StoreError> {
        if replays.is_empty() {
            return Ok(());
        }
        self.writer.run(CountReplays(replays.to_vec())).await
    }

    async fn list(&self, filter: &Filter, cursor: Option<Cursor>, limit: u32) -> Result<Page, StoreError> {
        let (clock, filter) = (self.clock.clone(), filter.clone());
        self.scans.run(move |connection| listing::list(connection, &filter, cursor, limit, clock.now())).await
    }

    async fn operate(&self, ids: &[RecordId], order: &Order) -> Result<Vec<Acted>, StoreError> {
        self.writer.run(Operate { ids: ids.to_vec(), order: order.clone() }).await
    }

    async fn note_sweep(&self, swept: Swept, operator: &Operator) -> Result<(), StoreError> {
        self.writer.run(NoteSweep { swept, operator: operator.clone() }).await
    }

    async fn audit(&self, filter: &AuditFilter, cursor: Option<Cursor>, limit: u32) -> Result<AuditPage, StoreError> {
        let filter = filter.clone();
        self.scans.run(move |connection| audit::list(connection, &filter, cursor, limit)).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        let (clock, path) = (self.clock.clone(), self.place.path.clone());
        self.scans.run(move |connection| listing::stats(connection, &path, clock.now())).await
    }

    async fn gauges(&self) -> Result<Gauges, StoreError> {
        let (clock, path) = (self.clock.clone(), self.place.path.clone());
        self.scans.run(move |connection| gauges::read(connection, &path, clock.now())).await
    }

    async fn promise(&self) -> Result<Promise, StoreError> {
        Ok(self.writer.run(ReadSettings).await?.promise(&self.place.path))
    }

    fn describe(&self) -> String {
        format!("sqlite:{}", self.place.path.display())
    }
}
