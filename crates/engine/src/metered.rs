//! A store whose calls are timed and whose failures are counted, whoever makes them. What is watched of it besides is in `watching`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use metrics::{Counter, Histogram, counter, histogram};
use oncekey_core::{Namespace, OwnerId, RecordId, Scope, Timestamp, Token};
use oncekey_store::{
    Acted, AuditFilter, AuditPage, Claim, Claimed, Cursor, Filter, Found, Gauges, Operator, Order, Outcome, Page,
    Promise, Recorded, Stats, Store, StoreError, Swept,
};
use tokio::time::Instant;

/// Passes every call on to another store.
pub(crate) struct Metered {
    inner: Arc<dyn Store>,
    claim: Histogram,
    renew: Histogram,
    complete: Histogram,
    lookup: Histogram,
    sweep: Histogram,
    /// For calls that aren't timed: they are rare, or may scan.
    untimed: Histogram,
    errors: Counter,
    swept: Counter,
    lapsed: Counter,
}

/// A call that is under way. Dropped before its end, it was given up as too slow, which is a failure as well.
struct Pending<'a> {
    seconds: &'a Histogram,
    errors: &'a Counter,
    asked: Instant,
    failed: bool,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.seconds.record(self.asked.elapsed());
        if self.failed {
            self.errors.increment(1);
        }
    }
}

impl Metered {
    /// All its metrics are there from now on.
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        let seconds = |op| histogram!("oncekey_store_seconds", "op" => op);
        Self {
            inner,
            claim: seconds("claim"),
            renew: seconds("renew"),
            complete: seconds("complete"),
            lookup: seconds("lookup"),
            sweep: seconds("sweep"),
            untimed: Histogram::noop(),
            errors: store_errors(),
            swept: counter!("oncekey_swept_total"),
            lapsed: counter!("oncekey_lapsed_total"),
        }
    }

    async fn timed<T>(
        &self,
        seconds: &Histogram,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut pending = Pending { seconds, errors: &self.errors, asked: Instant::now(), failed: true };
        let answer = call.await;
        pending.failed = answer.is_err();
        answer
    }
}

/// Calls of the store that failed, or were given up as too slow.
pub(crate) fn store_errors() -> Counter {
    counter!("oncekey_store_errors_total")
}

#[async_trait]
impl Store for Metered {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.timed(&self.claim, self.inner.claim(claim)).await
    }

    async fn record(&self, id: RecordId, token: Token, outcome: Outcome) -> Result<Recorded, StoreError> {
        self.timed(&self.complete, self.inner.record(id, token, outcome)).await
    }

    async fn read(&self, id: RecordId) -> Result<Option<Found>, StoreError> {
        self.timed(&self.lookup, self.inner.read(id)).await
    }

    async fn peek(&self, ids: &[RecordId]) -> Result<Vec<Found>, StoreError> {
        self.timed(&self.lookup, self.inner.peek(ids)).await
    }

    async fn heartbeat(&self, owner: OwnerId, lease: Duration) -> Result<Timestamp, StoreError> {
        self.timed(&self.renew, self.inner.heartbeat(owner, lease)).await
    }

    async fn retire(&self, owner: OwnerId) -> Result<(), StoreError> {
        self.timed(&self.untimed, self.inner.retire(owner)).await
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<Swept, StoreError> {
        let swept = self.timed(&self.sweep, self.inner.sweep(now, limit)).await?;
        self.swept.increment(swept.deleted);
        self.lapsed.increment(swept.lapsed);
        Ok(swept)
    }

    async fn count_scope(&self, namespace: &Namespace, scope: &Scope, limit: u64) -> Result<u64, StoreError> {
        self.timed(&self.untimed, self.inner.count_scope(namespace, scope, limit)).await
    }

    async fn count_replays(&self, replays: &[(RecordId, u32)]) -> Result<(), StoreError> {
        self.timed(&self.untimed, self.inner.count_replays(replays)).await
    }

    async fn list(&self, filter: &Filter, cursor: Option<Cursor>, limit: u32) -> Result<Page, StoreError> {
        self.timed(&self.untimed, self.inner.list(filter, cursor, limit)).await
    }

    async fn operate(&self, ids: &[RecordId], order: &Order) -> Result<Vec<Acted>, StoreError> {
        self.timed(&self.untimed, self.inner.operate(ids, order)).await
    }

    async fn note_sweep(&self, swept: Swept, operator: &Operator) -> Result<(), StoreError> {
        self.timed(&self.untimed, self.inner.note_sweep(swept, operator)).await
    }

    async fn audit(&self, filter: &AuditFilter, cursor: Option<Cursor>, limit: u32) -> Result<AuditPage, StoreError> {
        self.timed(&self.untimed, self.inner.audit(filter, cursor, limit)).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.timed(&self.untimed, self.inner.stats()).await
    }

    async fn gauges(&self) -> Result<Gauges, StoreError> {
        self.timed(&self.untimed, self.inner.gauges()).await
    }

    async fn promise(&self) -> Result<Promise, StoreError> {
        self.timed(&self.untimed, self.inner.promise()).await
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
