//! An open transaction and its end, on any driver: what is sent when, and what each answer means. Its beginning is in `ground`.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use oncekey_core::{Event, State, Timestamp};
use oncekey_store::{Claim, Closed, Ending, Found, Outcome, Replaces, StoreError, Transaction, fault};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tokio_postgres::types::Type;

use super::driver::{Connection, Lent};
use super::ground::Ground;
use super::protocol::{Script, Value, WRITE, Written};
use super::trouble::Trouble;
use crate::error::Failure;
use crate::lookup;
use crate::session::{Param, Session};

/// An open transaction.
pub(super) struct Open<L: Lent> {
    pub(super) ground: Arc<Ground>,
    pub(super) claim: Claim,
    pub(super) script: Script,
    pub(super) pid: i32,
    pub(super) started: Timestamp,
    pub(super) attempt: u32,
    /// `None` once it is being ended.
    pub(super) lent: Option<Arc<L>>,
}

#[async_trait]
impl<L: Lent> Transaction for Open<L> {
    fn handle(&self) -> Arc<dyn Any + Send + Sync> {
        match &self.lent {
            Some(lent) => Arc::clone(lent).handle(),
            None => Arc::new(()),
        }
    }

    async fn end(mut self: Box<Self>, ending: Ending) -> Result<Closed, StoreError> {
        let Some(lent) = self.lent.take() else { return Ok(Closed::RolledBack) };
        let tasks = self.ground.server.tasks().clone();
        let ended = tasks.spawn(async move { self.finish(&lent, ending).await }).await;
        ended.unwrap_or_else(|_| Err(StoreError::MayHaveBeenApplied(Failure::Closed.into())))
    }
}

impl<L: Lent> Drop for Open<L> {
    /// Rolls back: at once if no statement is running, else by ending the session.
    fn drop(&mut self) {
        let (Some(lent), Ok(runtime)) = (self.lent.take(), Handle::try_current()) else { return };
        let (ground, pid, lock) = (Arc::clone(&self.ground), self.pid, self.script.lock);
        self.ground.server.tasks().spawn_on(
            async move {
                if let Err(failure) = ground.terminate(pid, lock).await {
                    tracing::debug!(%failure, "a transaction that was given up could not be ended from outside");
                }
                drop(lent.take_back().await);
            },
            &runtime,
        );
    }
}

impl<L: Lent> Open<L> {
    async fn finish(&self, lent: &Arc<L>, ending: Ending) -> Result<Closed, StoreError> {
        // Its last statement may be running still, if it was given up or left to another task.
        let taken = timeout(self.ground.server.options().lock_timeout, lent.take_back()).await.ok().flatten();
        let met = lent.has_met_another();
        let Some(mut connection) = taken else { return self.wrest(lent, matches!(ending, Ending::RollBack)).await };
        let lock_timeout = self.ground.server.options().lock_timeout;
        match ending {
            Ending::RollBack => self.roll_back(connection, met).await,
            Ending::Last(_) => self.roll_back(connection, met).await.and_then(|_| Err(Trouble::NoLast.not_applied())),
            Ending::Commit(outcome) => self.commit(connection, outcome, &self.script.keep(lock_timeout), met).await,
            Ending::CommitRecord(outcome) => {
                // An answer that was made of a transaction which met another isn't the operation's.
                if met && timeout(self.ground.patience(), connection.run("SELECT")).await.is_ok_and(|ran| ran.is_err())
                {
                    return self.roll_back(connection, met).await;
                }
                self.commit(connection, outcome, &self.script.discard(lock_timeout), met).await
            }
        }
    }

    /// Ends a transaction whose handler doesn't let go of it.
    async fn wrest(&self, lent: &Arc<L>, rolling_back: bool) -> Result<Closed, StoreError> {
        let ended = self.ground.terminate(self.pid, self.script.lock).await;
        // What it was running fails now, and nobody who keeps a handle keeps a place of the pool with it.
        let (lent, patience) = (Arc::clone(lent), self.ground.patience());
        self.ground.server.tasks().spawn(async move { drop(timeout(patience, lent.take_back()).await) });
        match ended {
            Ok(false) => self.foreign().await,
            Ok(true) | Err(_) if rolling_back => Ok(Closed::RolledBack),
            Ok(true) => Err(Trouble::Kept.not_applied()),
            Err(failure) => Err(failure.not_applied()),
        }
    }

    async fn roll_back(&self, mut connection: L::Connection, met: bool) -> Result<Closed, StoreError> {
        let rolled_back = timeout(self.ground.patience(), connection.run(&self.script.roll_back())).await;
        match rolled_back.unwrap_or(Err(Trouble::TookTooLong)) {
            Ok(()) => connection.release().await,
            Err(trouble) if trouble.is_foreign() => return self.foreign().await,
            // Without its connection it ends as well; nobody asks to commit it any more.
            Err(_) => {
                drop(connection);
                let _ = self.ground.terminate(self.pid, self.script.lock).await;
            }
        }
        Ok(if met { Closed::Again } else { Closed::RolledBack })
    }

    async fn commit(
        &self,
        mut connection: L::Connection,
        outcome: Outcome,
        before: &str,
        met: bool,
    ) -> Result<Closed, StoreError> {
        let Some(written) = Written::new(&self.claim, outcome, self.started, self.attempt) else {
            self.roll_back(connection, met).await?;
            return Err(Failure::Refused("only complete, fail and write-off end a claim").not_applied());
        };
        if fault::broken("record_apart") {
            let _ = connection.run(&self.script.apart()).await;
        }
        let values = written.values(self.ground.now(), Some(self.script.guard()));
        match timeout(self.ground.patience(), connection.commit(before, &values)).await {
            Ok(Ok((expires, now))) => {
                connection.release().await;
                Ok(Closed::Recorded { expires, now })
            }
            Ok(Err(trouble)) if trouble.is_foreign() => self.foreign().await,
            Ok(Err(trouble)) if trouble.is_refused() => {
                if let Ok(Ok(())) = timeout(self.ground.patience(), connection.run("ROLLBACK")).await {
                    connection.release().await;
                }
                self.refused(trouble, met).await
            }
            Ok(Err(trouble)) => {
                drop(connection);
                self.settle(&written, trouble).await
            }
            Err(_) => {
                drop(connection);
                self.settle(&written, Trouble::TookTooLong).await
            }
        }
    }

    /// What a refusal means to who wanted to commit: all was rolled back.
    async fn refused(&self, trouble: Trouble, met: bool) -> Result<Closed, StoreError> {
        if trouble.lacks_statement() || trouble.met_another() || (trouble.is_aborted() && met) {
            return Ok(Closed::Again);
        }
        if trouble.is_aborted() {
            return Err(Trouble::Aborted.not_applied());
        }
        if trouble.is_in_the_way()
            && let Some(found) = self.ground.found(&self.claim).await?
            && !self.may_replace(&found)
        {
            return Ok(Closed::Met(Box::new(found)));
        }
        Err(trouble.not_applied())
    }

    /// Whether a record is the one that the claim was to replace, and nobody executes it.
    fn may_replace(&self, found: &Found) -> bool {
        let record = &found.record;
        let is_the_same = |seen: Replaces| seen.token == record.token && seen.state == record.state;
        record.state != State::Processing && self.claim.replaces.is_some_and(is_the_same)
    }

    /// Finds out whether a commit that nobody acknowledged took place. The lock is free once the old transaction has ended, one
    /// way or the other, and what it committed can be read then.
    async fn settle(&self, written: &Written, trouble: Trouble) -> Result<Closed, StoreError> {
        let patience = self.ground.patience();
        // A server that is starting again refuses for a while.
        let asking = async {
            loop {
                match self.ask_what_became().await {
                    Ok(found) => return found,
                    Err(failure) => {
                        tracing::debug!(%failure, "whether a transaction was committed is asked again");
                        sleep(patience / 50).await;
                    }
                }
            }
        };
        let Ok(found) = timeout(patience * 2, asking).await else {
            return Err(StoreError::MayHaveBeenApplied(Trouble::Unsettled(Box::new(trouble)).into()));
        };
        let Some(found) = found else { return Ok(Closed::Again) };
        let record = &found.record;
        if record.token == self.claim.token
            && record.state == written.state()
            && let (Some(expires), Some(now)) = (record.times.expires, record.times.ended)
        {
            return Ok(Closed::Recorded { expires, now });
        }
        // What it meant to replace is there still.
        if self.claim.replaces.is_some_and(|seen| seen.token == record.token && seen.state == record.state) {
            return Ok(Closed::Again);
        }
        Ok(Closed::Met(Box::new(found)))
    }

    async fn ask_what_became(&self) -> Result<Option<Found>, Failure> {
        let session = Session::new(&self.ground.server);
        let patience = (self.ground.patience() / 4).as_millis().max(1).to_string();
        let wait: [Param<'_>; 2] = [(&self.script.lock, Type::INT8), (&patience, Type::TEXT)];
        if let Err(failure) = session.query(Script::WAIT, &wait).await {
            // It has had its time: a session that hears nothing more would hold the lock for long.
            if failure.is_held_up() {
                self.ground.terminate(self.pid, self.script.lock).await?;
            }
            return Err(failure);
        }
        lookup::read(&session, self.claim.identity.id()).await
    }

    /// The handler committed or rolled back by itself, and what was done then is not known. Its record says so, for it must
    /// not be executed again.
    async fn foreign(&self) -> Result<Closed, StoreError> {
        let id = self.claim.identity.id();
        tracing::error!(
            operation = %id,
            "a handler ended oncekey's transaction by itself (COMMIT or ROLLBACK): the outcome of its operation is unknown"
        );
        let outcome = Outcome { event: Event::WriteOff, response: None };
        if let Some(written) = Written::new(&self.claim, outcome, self.started, self.attempt) {
            let values = written.values(self.ground.now(), None);
            let params: Vec<_> = values.iter().map(Value::param).collect();
            let patience = self.ground.patience();
            let writing = async {
                while let Err(failure) = self.ground.aside.query(WRITE, &params).await {
                    if failure.is_division_by_zero() {
                        tracing::error!(operation = %id, "the unknown outcome was not recorded: another's record is there");
                        return;
                    }
                    tracing::debug!(%failure, "an unknown outcome is recorded again");
                    sleep(patience / 50).await;
                }
            };
            if timeout(patience * 2, writing).await.is_err() {
                tracing::error!(operation = %id, "the unknown outcome was not recorded: the database did not let it be");
            }
        }
        Err(StoreError::MayHaveBeenApplied(Trouble::Foreign.into()))
    }
}
