//! Transactional mode (G3): the work that a handler hands over runs in the transaction of a batch, and its rows and the record
//! commit together.
//!
//! Nothing is held open while the handler runs: beginning only reads. Claim, work and outcome are one operation at the end,
//! in a savepoint. Work runs once at most; when the batch it was in is lost for another's fault, it is reported as
//! [`Closed::Again`], and the handler runs again.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oncekey_core::{Record, RecordId, State, Timestamp, Token};
use oncekey_store::change::{self, OnClaim, OnOutcome};
use oncekey_store::{Begun, Claim, Clock, Closed, Ending, Found, Last, Outcome, StoreError, Transactions, fault};
use parking_lot::Mutex;
use rusqlite::Connection;

use crate::claims::{held, judge, put};
use crate::error::Failure;
use crate::guard::{Guard, Sql};
use crate::handle::SqliteTransaction;
use crate::lookup;
use crate::outcomes::{body_size, check_event, end};
use crate::reader::Readers;
use crate::row::Stored;
use crate::store::SqliteStore;
use crate::writer::{Operation, Transaction, Writer};

/// What the work of a handler counts in a batch, in bytes: how much it writes isn't known before. 64 fill one.
const WORK_SIZE: usize = 128 * 1024;

#[async_trait]
impl Transactions for SqliteStore {
    async fn begin(&self, claim: Claim) -> Result<Begun, StoreError> {
        let (id, clock) = (claim.identity.id(), self.clock.clone());
        let Some(place) = InUse::take(&self.in_use, id) else { return Ok(Begun::Busy) };
        let found = self.lookups.run(move |connection| lookup::read(connection, id, clock.now())).await?;
        let standing = found.as_ref().map(|found| (&found.record, found.owner_alive));
        let now = found.as_ref().map_or_else(|| self.clock.now(), |found| found.now);
        let attempt = match change::on_claim(standing, &claim, now) {
            OnClaim::Put(record) => record.attempts,
            OnClaim::Own { attempt } => attempt,
            OnClaim::Held => {
                let found =
                    found.ok_or_else(|| Failure::Refused("no record, and the claim was refused").not_applied())?;
                return Ok(Begun::Held(Box::new(found)));
            }
        };
        let ends = Ends {
            writer: self.writer.clone(),
            lookups: self.lookups.clone(),
            clock: self.clock.clone(),
            work_timeout: self.options.work_timeout,
            claim,
            place,
        };
        Ok(Begun::Open { attempt, transaction: Box::new(ends) })
    }
}

/// The record of an open transaction, of which a process has one at a time: its handler needn't run twice. Another process's isn't
/// seen; of the two, the one that ends later meets the other's record.
struct InUse {
    ids: Arc<Mutex<HashSet<RecordId>>>,
    id: RecordId,
}

impl InUse {
    fn take(ids: &Arc<Mutex<HashSet<RecordId>>>, id: RecordId) -> Option<Self> {
        ids.lock().insert(id).then(|| Self { ids: ids.clone(), id })
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.ids.lock().remove(&self.id);
    }
}

/// A transaction that only its end writes.
struct Ends {
    writer: Arc<Writer>,
    lookups: Arc<Readers>,
    clock: Arc<dyn Clock>,
    work_timeout: Duration,
    claim: Claim,
    place: InUse,
}

#[async_trait]
impl oncekey_store::Transaction for Ends {
    fn handle(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::new(SqliteTransaction::new())
    }

    async fn end(self: Box<Self>, ending: Ending) -> Result<Closed, StoreError> {
        // The place is given up when the answer is there, or nobody waits for it any more.
        let Self { writer, lookups, clock, work_timeout, claim, place: _place } = *self;
        if matches!(ending, Ending::RollBack) {
            // Nothing was begun.
            return Ok(Closed::RolledBack);
        }
        let (id, settle) = (claim.identity.id(), Settle::new(&claim));
        let closed = match writer.run(Close::new(claim, ending, work_timeout)).await {
            Err(StoreError::MayHaveBeenApplied(cause)) => match writer.run(settle).await {
                Ok(Some(closed)) => closed,
                Ok(None) => return Err(StoreError::NotApplied(cause)),
                Err(_) => return Err(StoreError::MayHaveBeenApplied(cause)),
            },
            closed => closed?,
        };
        match closed {
            Closed::Met(found) if found.response.is_none() && found.record.response_status.is_some() => {
                // Committed, so that it can be read. If it is gone by now, the way is free.
                let met = lookups.run(move |connection| lookup::read(connection, id, clock.now())).await?;
                Ok(met.map_or(Closed::Again, |found| Closed::Met(Box::new(found))))
            }
            closed => Ok(closed),
        }
    }
}

/// What is to be done before the record is written.
enum Work {
    /// Nothing; the outcome is known.
    None(Outcome),
    /// What the handler handed over.
    Last(Last),
    /// It ran, in a transaction that was lost.
    Lost,
    /// It ran, and took the transaction down.
    TookDown(Result<Closed, Failure>),
}

/// Claims, does the work and records its outcome.
pub(crate) struct Close {
    id: RecordId,
    claim: Claim,
    work_timeout: Duration,
    work: RefCell<Work>,
}

/// A record as claimed, and what it stands in place of.
struct Free {
    record: Box<Record>,
    stored: Option<Stored>,
    now: Timestamp,
}

impl Operation for Close {
    type Answer = Closed;

    fn about(&self) -> Option<RecordId> {
        Some(self.id)
    }

    fn size(&self) -> usize {
        match &*self.work.borrow() {
            Work::None(outcome) => outcome.response.as_deref().map_or(0, body_size),
            _ => WORK_SIZE,
        }
    }

    fn is_last(&self) -> bool {
        matches!(*self.work.borrow(), Work::Last(_))
    }

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<Closed, Failure> {
        let free = match self.claim(transaction)? {
            Ok(free) => free,
            Err(found) => return Ok(Closed::Met(found)),
        };
        match self.work.replace(Work::Lost) {
            Work::Lost => Ok(Closed::Again),
            Work::TookDown(told) => told,
            Work::None(outcome) => {
                let closed = transaction.write(Some(self.id), |connection| self.write(connection, &free, &outcome));
                self.work.replace(Work::None(outcome));
                closed
            }
            Work::Last(last) => self.work(transaction, last, &free),
        }
    }
}

impl Close {
    pub(crate) fn new(claim: Claim, ending: Ending, work_timeout: Duration) -> Self {
        let work = match ending {
            // Without work there are no rows to roll back.
            Ending::Commit(outcome) | Ending::CommitRecord(outcome) => Work::None(outcome),
            Ending::Last(last) => Work::Last(last),
            Ending::RollBack => Work::TookDown(Ok(Closed::RolledBack)),
        };
        Self { id: claim.identity.id(), claim, work_timeout, work: RefCell::new(work) }
    }

    /// The claim, which isn't written before its outcome is; or what is in its way.
    fn claim(&self, transaction: &Transaction<'_>) -> Result<Result<Free, Box<Found>>, Failure> {
        let now = transaction.now();
        match judge(transaction, self.id, &self.claim, now)? {
            (OnClaim::Put(record), stored) => Ok(Ok(Free { record, stored, now })),
            (OnClaim::Own { .. }, Some(stored)) => {
                Ok(Ok(Free { record: Box::new(stored.record.clone()), stored: Some(stored), now }))
            }
            (_, stored) => held(transaction, stored, now).map(Err),
        }
    }

    /// Does the work, and claims and records as it turns out.
    fn work(&self, transaction: &mut Transaction<'_>, last: Last, free: &Free) -> Result<Closed, Failure> {
        let mut rolls_back = false;
        let written = transaction.write_apart(self.id, |connection, guard| {
            let ending = self.run_last(connection, guard, last);
            rolls_back = matches!(ending, Ending::RollBack);
            if connection.is_autocommit() {
                return Err(Failure::TookDown);
            }
            if fault::broken("record_apart") {
                connection.execute_batch("RELEASE oncekey; COMMIT; BEGIN IMMEDIATE; SAVEPOINT oncekey")?;
            }
            match ending {
                Ending::Commit(outcome) => self.write(connection, free, &outcome).map(Some),
                Ending::CommitRecord(outcome) => {
                    connection.execute_batch("ROLLBACK TO oncekey")?;
                    self.write(connection, free, &outcome).map(Some)
                }
                Ending::RollBack => Ok(None),
                Ending::Last(_) => Err(Failure::Refused("work may not end in more work")),
            }
        });
        // Whatever came of it, nothing is there of work that wanted nothing to be there.
        let told = |failure| if rolls_back { Ok(Closed::RolledBack) } else { Err(failure) };
        if transaction.is_gone() {
            self.work.replace(Work::TookDown(told(Failure::TookDown)));
        }
        written.map(|closed| closed.unwrap_or(Closed::RolledBack)).or_else(told)
    }

    /// Runs the work under guard. A panic in it is a wish to roll back.
    fn run_last(&self, connection: &Connection, guard: &Guard, last: Last) -> Ending {
        let run = || catch_unwind(AssertUnwindSafe(|| last(connection)));
        guard.against(Sql::Rows, self.work_timeout, run).unwrap_or_else(|_| {
            tracing::error!("a handler's work in the transaction of its record panicked; it was rolled back");
            Ending::RollBack
        })
    }

    /// Writes the record as it ends, with its response.
    fn write(&self, connection: &Connection, free: &Free, outcome: &Outcome) -> Result<Closed, Failure> {
        check_event(outcome.event)?;
        let (Free { record, stored, now }, response) = (free, outcome.response.as_deref());
        let status = response.map(|response| response.status.as_u16());
        let OnOutcome::Put(ended) = change::on_outcome(record, self.claim.token, outcome.event, status, *now) else {
            return Err(Failure::Refused("the outcome doesn't fit the claim"));
        };
        let own = stored.as_ref().filter(|stored| stored.record.token == self.claim.token);
        let seq = if let Some(own) = own {
            own.seq
        } else {
            put(connection, self.id, stored.as_ref(), record)?;
            connection.last_insert_rowid()
        };
        end(connection, seq, &ended, response)?;
        Ok(Closed::Recorded { expires: ended.times.expires.unwrap_or(*now), now: *now })
    }
}

/// Finds out what became of a commit that failed unclearly: whether the record is there, under the claim's token.
pub(crate) struct Settle {
    id: RecordId,
    token: Token,
}

impl Settle {
    pub(crate) fn new(claim: &Claim) -> Self {
        Self { id: claim.identity.id(), token: claim.token }
    }
}

impl Operation for Settle {
    /// `None`: nothing of it is there, and nothing will be.
    type Answer = Option<Closed>;

    fn about(&self) -> Option<RecordId> {
        // Answered after the COMMIT: only with that it is certain.
        None
    }

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<Option<Closed>, Failure> {
        // Its frames take the place of those of the failed one in the write-ahead log. Had those stayed, a crash could still
        // bring them to life.
        transaction.write(None, |connection| {
            connection.execute("INSERT OR REPLACE INTO nodes (owner, alive_until) VALUES (zeroblob(16), 0)", [])?;
            Ok(connection.execute("DELETE FROM nodes WHERE owner = zeroblob(16)", [])?)
        })?;
        let now = transaction.now();
        let ours = transaction.find(self.id)?.filter(|stored| stored.record.token == self.token);
        Ok(ours
            .filter(|stored| stored.record.state != State::Processing)
            .map(|stored| Closed::Recorded { expires: stored.record.times.expires.unwrap_or(now), now }))
    }
}
