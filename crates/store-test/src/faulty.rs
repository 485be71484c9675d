//! A store that fails on command, over any store. For tests of whoever uses a store.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oncekey_core::{Namespace, OwnerId, RecordId, Scope, Timestamp, Token};
use oncekey_store::{
    Acted, AuditFilter, AuditPage, Claim, Claimed, Cursor, Deed, Filter, Found, Gauges, Operator, Order, Outcome, Page,
    Promise, Recorded, Stats, Store, StoreError, Swept,
};
use parking_lot::Mutex;

use crate::Gate;

/// An operation of a store, by the name of its method; an order by that of its deed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum Op {
    Claim,
    Record,
    Read,
    Peek,
    Heartbeat,
    Retire,
    Sweep,
    CountScope,
    CountReplays,
    List,
    Resolve,
    Purge,
    NoteSweep,
    Audit,
    Stats,
    Gauges,
    Promise,
}

/// What goes wrong with a call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The store answers that nothing was applied, and nothing is.
    NotApplied,
    /// The call is applied and its acknowledgement lost: `MayHaveBeenApplied` (D2, D3).
    ReplyLost,
    /// The call never arrives, and the caller can't know: `MayHaveBeenApplied`.
    RequestLost,
    /// The record can't be read: `Corrupt`.
    Corrupt,
    /// The store can't be used as configured, and nothing is applied: `Misconfigured`.
    Misconfigured,
    /// The call waits at the gate and is applied after it.
    HeldBefore(Gate),
    /// The call is applied, and its answer waits at the gate.
    HeldAfter(Gate),
}

#[derive(Default)]
struct Script {
    next: VecDeque<Fault>,
    always: Option<Fault>,
    calls: u64,
}

/// Passes every call on to another store, unless told to let it fail.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    scripts: Mutex<HashMap<Op, Script>>,
}

impl FaultyStore {
    /// A faulty face of `inner`; without a command it behaves like it.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, scripts: Mutex::default() }
    }

    /// Lets the next call of `op` that no earlier command claims fail.
    pub fn fail_next(&self, op: Op, fault: Fault) {
        self.scripts.lock().entry(op).or_default().next.push_back(fault);
    }

    /// Lets every call of `op` fail until [`FaultyStore::heal`].
    pub fn fail_always(&self, op: Op, fault: Fault) {
        self.scripts.lock().entry(op).or_default().always = Some(fault);
    }

    /// Takes back all commands for `op`. Calls held at a gate stay there.
    pub fn heal(&self, op: Op) {
        let mut scripts = self.scripts.lock();
        let script = scripts.entry(op).or_default();
        script.next.clear();
        script.always = None;
    }

    /// Holds the next call of `op` before it is applied.
    pub fn hold_before(&self, op: Op) -> Gate {
        let gate = Gate::default();
        self.fail_next(op, Fault::HeldBefore(gate.clone()));
        gate
    }

    /// Holds the answer of the next call of `op`.
    pub fn hold_after(&self, op: Op) -> Gate {
        let gate = Gate::default();
        self.fail_next(op, Fault::HeldAfter(gate.clone()));
        gate
    }

    /// How often `op` was called, failing calls included.
    pub fn calls(&self, op: Op) -> u64 {
        self.scripts.lock().get(&op).map_or(0, |script| script.calls)
    }

    fn fault(&self, op: Op) -> Option<Fault> {
        let mut scripts = self.scripts.lock();
        let script = scripts.entry(op).or_default();
        script.calls += 1;
        script.next.pop_front().or_else(|| script.always.clone())
    }

    async fn pass<T>(&self, op: Op, call: impl Future<Output = Result<T, StoreError>> + Send) -> Result<T, StoreError> {
        let injected = || format!("injected into {op:?}").into();
        match self.fault(op) {
            None => call.await,
            Some(Fault::NotApplied) => Err(StoreError::NotApplied(injected())),
            Some(Fault::RequestLost) => Err(StoreError::MayHaveBeenApplied(injected())),
            Some(Fault::Corrupt) => Err(StoreError::Corrupt(injected())),
            Some(Fault::Misconfigured) => Err(StoreError::Misconfigured(injected())),
            Some(Fault::ReplyLost) => {
                call.await?;
                Err(StoreError::MayHaveBeenApplied(injected()))
            }
            Some(Fault::HeldBefore(gate)) => {
                gate.pass().await;
                call.await
            }
            Some(Fault::HeldAfter(gate)) => {
                let answer = call.await;
                gate.pass().await;
                answer
            }
        }
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.pass(Op::Claim, self.inner.claim(claim)).await
    }

    async fn record(&self, id: RecordId, token: Token, outcome: Outcome) -> Result<Recorded, StoreError> {
        self.pass(Op::Record, self.inner.record(id, token, outcome)).await
    }

    async fn read(&self, id: RecordId) -> Result<Option<Found>, StoreError> {
        self.pass(Op::Read, self.inner.read(id)).await
    }

    async fn peek(&self, ids: &[RecordId]) -> Result<Vec<Found>, StoreError> {
        self.pass(Op::Peek, self.inner.peek(ids)).await
    }

    async fn heartbeat(&self, owner: OwnerId, lease: Duration) -> Result<Timestamp, StoreError> {
        self.pass(Op::Heartbeat, self.inner.heartbeat(owner, lease)).await
    }

    async fn retire(&self, owner: OwnerId) -> Result<(), StoreError> {
        self.pass(Op::Retire, self.inner.retire(owner)).await
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<Swept, StoreError> {
        self.pass(Op::Sweep, self.inner.sweep(now, limit)).await
    }

    async fn count_scope(&self, namespace: &Namespace, scope: &Scope, limit: u64) -> Result<u64, StoreError> {
        self.pass(Op::CountScope, self.inner.count_scope(namespace, scope, limit)).await
    }

    async fn count_replays(&self, replays: &[(RecordId, u32)]) -> Result<(), StoreError> {
        self.pass(Op::CountReplays, self.inner.count_replays(replays)).await
    }

    async fn list(&self, filter: &Filter, cursor: Option<Cursor>, limit: u32) -> Result<Page, StoreError> {
        self.pass(Op::List, self.inner.list(filter, cursor, limit)).await
    }

    async fn operate(&self, ids: &[RecordId], order: &Order) -> Result<Vec<Acted>, StoreError> {
        let op = match order.deed {
            Deed::Resolve(_) => Op::Resolve,
            Deed::Purge => Op::Purge,
        };
        self.pass(op, self.inner.operate(ids, order)).await
    }

    async fn note_sweep(&self, swept: Swept, operator: &Operator) -> Result<(), StoreError> {
        self.pass(Op::NoteSweep, self.inner.note_sweep(swept, operator)).await
    }

    async fn audit(&self, filter: &AuditFilter, cursor: Option<Cursor>, limit: u32) -> Result<AuditPage, StoreError> {
        self.pass(Op::Audit, self.inner.audit(filter, cursor, limit)).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.pass(Op::Stats, self.inner.stats()).await
    }

    async fn gauges(&self) -> Result<Gauges, StoreError> {
        self.pass(Op::Gauges, self.inner.gauges()).await
    }

    async fn promise(&self) -> Result<Promise, StoreError> {
        self.pass(Op::Promise, self.inner.promise()).await
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
