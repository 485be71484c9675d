//! Transactions over any store that keeps its records in this process, which fail on command. For tests of whoever uses
//! transactions; their rows are texts.

use std::any::Any;
use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use oncekey_core::RecordId;
use oncekey_store::change::{OnClaim, on_claim};
use oncekey_store::{
    Begun, Claim, Claimed, Closed, Ending, Outcome, Recorded, Store, StoreError, Transaction, Transactions,
};
use parking_lot::Mutex;

use crate::{Gate, Rows};

/// What goes wrong when a transaction begins.
#[derive(Clone, Debug)]
pub enum BeginFault {
    /// Another's transaction is open, on another node.
    Busy,
    /// The store can't be reached.
    NotApplied,
    /// The record can't be read.
    Corrupt,
    /// It waits at the gate first.
    Held(Gate),
}

/// What goes wrong when a transaction ends.
#[derive(Clone, Debug)]
pub enum EndFault {
    /// It met another and was rolled back.
    Again,
    /// It was rolled back without a reason that is told.
    RolledBack,
    /// The store can't be reached, and nothing was applied.
    NotApplied,
    /// Nobody can tell; it was applied.
    ReplyLost,
    /// Nobody can tell; it wasn't applied.
    RequestLost,
    /// It waits at the gate first.
    Held(Gate),
}

/// Makes each claim in a transaction that is open in this process, and keeps the rows of those that are committed.
pub struct ScriptedTransactions {
    store: Arc<dyn Store>,
    shared: Arc<Shared>,
    begins: Mutex<VecDeque<BeginFault>>,
}

#[derive(Default)]
struct Shared {
    open: Mutex<HashSet<RecordId>>,
    most_open: Mutex<usize>,
    opened: Mutex<usize>,
    rows: Mutex<Vec<String>>,
    ends: Mutex<VecDeque<EndFault>>,
}

/// What a handler writes its rows into: the handle of these transactions, and the connection of their last work.
#[derive(Debug, Default)]
pub struct Buffer {
    rows: Mutex<Vec<String>>,
}

impl Buffer {
    /// Writes a row, which is kept if the transaction is committed with its rows.
    pub fn write(&self, row: impl Into<String>) {
        self.rows.lock().push(row.into());
    }
}

impl ScriptedTransactions {
    /// Transactions whose records `store` keeps.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, shared: Arc::default(), begins: Mutex::default() }
    }

    /// Lets the next beginning that no earlier command claims fail.
    pub fn fail_begin(&self, fault: BeginFault) {
        self.begins.lock().push_back(fault);
    }

    /// Lets the next end that no earlier command claims fail.
    pub fn fail_end(&self, fault: EndFault) {
        self.shared.ends.lock().push_back(fault);
    }

    /// The rows that are committed, in order.
    pub fn rows(&self) -> Vec<String> {
        self.shared.rows.lock().clone()
    }

    /// How many transactions are open.
    pub fn open(&self) -> usize {
        self.shared.open.lock().len()
    }

    /// How many have been open at once, at most.
    pub fn most_open(&self) -> usize {
        *self.shared.most_open.lock()
    }

    /// How many have been opened.
    pub fn opened(&self) -> usize {
        *self.shared.opened.lock()
    }
}

#[async_trait]
impl Transactions for ScriptedTransactions {
    async fn begin(&self, claim: Claim) -> Result<Begun, StoreError> {
        let fault = self.begins.lock().pop_front();
        match fault {
            None => {}
            Some(BeginFault::Busy) => return Ok(Begun::Busy),
            Some(BeginFault::NotApplied) => return Err(StoreError::NotApplied("injected into begin".into())),
            Some(BeginFault::Corrupt) => return Err(StoreError::Corrupt("injected into begin".into())),
            Some(BeginFault::Held(gate)) => gate.pass().await,
        }
        let id = claim.identity.id();
        if !self.shared.open.lock().insert(id) {
            return Ok(Begun::Busy);
        }
        // From here on whatever ends early lets go of the record.
        let opened = Scripted {
            store: Arc::clone(&self.store),
            shared: Arc::clone(&self.shared),
            buffer: Arc::default(),
            claim,
        };
        let found = self.store.read(id).await?;
        let there = found.as_ref().map(|found| (&found.record, found.owner_alive));
        let now = found.as_ref().map_or(oncekey_core::Timestamp::from_micros(0), |found| found.now);
        match (on_claim(there, &opened.claim, now), found) {
            (OnClaim::Put(record), _) => {
                let open = self.shared.open.lock().len();
                let mut most = self.shared.most_open.lock();
                *most = open.max(*most);
                *self.shared.opened.lock() += 1;
                Ok(Begun::Open { attempt: record.attempts, transaction: Box::new(opened) })
            }
            (_, Some(found)) => Ok(Begun::Held(Box::new(found))),
            (_, None) => Err(StoreError::NotApplied("no record, and the claim was refused".into())),
        }
    }
}

#[async_trait]
impl Rows for ScriptedTransactions {
    async fn write_and_end(
        &self,
        transaction: Box<dyn Transaction>,
        row: &str,
        ending: Ending,
    ) -> Result<Closed, StoreError> {
        if let Some(buffer) = transaction.handle().downcast_ref::<Buffer>() {
            buffer.write(row);
        }
        transaction.end(ending).await
    }

    async fn count(&self, row: &str) -> u64 {
        self.shared.rows.lock().iter().filter(|kept| *kept == row).count() as u64
    }
}

struct Scripted {
    store: Arc<dyn Store>,
    shared: Arc<Shared>,
    buffer: Arc<Buffer>,
    claim: Claim,
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.shared.open.lock().remove(&self.claim.identity.id());
    }
}

impl Scripted {
    async fn commit(&self, outcome: Outcome, rows: Vec<String>) -> Result<Closed, StoreError> {
        match self.store.claim(self.claim.clone()).await? {
            Claimed::Held(found) => return Ok(Closed::Met(found)),
            Claimed::Granted { .. } => {}
        }
        match self.store.record(self.claim.identity.id(), self.claim.token, outcome).await? {
            Recorded::Written { expires, now } => {
                self.shared.rows.lock().extend(rows);
                Ok(Closed::Recorded { expires, now })
            }
            Recorded::Fenced(Some(found)) => Ok(Closed::Met(found)),
            Recorded::Fenced(None) => Ok(Closed::RolledBack),
        }
    }

    async fn close(&self, ending: Ending) -> Result<Closed, StoreError> {
        let ending = match ending {
            Ending::Last(last) => {
                let connection: &dyn Any = &*self.buffer;
                catch_unwind(AssertUnwindSafe(|| last(connection))).unwrap_or(Ending::RollBack)
            }
            ending => ending,
        };
        let rows = std::mem::take(&mut *self.buffer.rows.lock());
        match ending {
            // Whoever keeps the handle could still write.
            Ending::Commit(_) | Ending::CommitRecord(_) if Arc::strong_count(&self.buffer) > 1 => {
                Ok(Closed::RolledBack)
            }
            Ending::Commit(outcome) => self.commit(outcome, rows).await,
            Ending::CommitRecord(outcome) => self.commit(outcome, Vec::new()).await,
            Ending::RollBack | Ending::Last(_) => Ok(Closed::RolledBack),
        }
    }
}

#[async_trait]
impl Transaction for Scripted {
    fn handle(&self) -> Arc<dyn Any + Send + Sync> {
        self.buffer.clone()
    }

    async fn end(self: Box<Self>, ending: Ending) -> Result<Closed, StoreError> {
        let fault = self.shared.ends.lock().pop_front();
        match fault {
            None => self.close(ending).await,
            // A store runs the last work before it commits, and can fail only then.
            Some(fault @ (EndFault::Again | EndFault::RolledBack | EndFault::NotApplied | EndFault::RequestLost)) => {
                if let Ending::Last(last) = ending {
                    let connection: &dyn Any = &*self.buffer;
                    let _ = last(connection);
                }
                match fault {
                    EndFault::Again => Ok(Closed::Again),
                    EndFault::RolledBack => Ok(Closed::RolledBack),
                    EndFault::NotApplied => Err(StoreError::NotApplied("injected into end".into())),
                    _ => Err(StoreError::MayHaveBeenApplied("injected into end".into())),
                }
            }
            Some(EndFault::ReplyLost) => {
                self.close(ending).await?;
                Err(StoreError::MayHaveBeenApplied("injected into end".into()))
            }
            Some(EndFault::Held(gate)) => {
                gate.pass().await;
                self.close(ending).await
            }
        }
    }
}
