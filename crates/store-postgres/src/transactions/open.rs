//! A transaction from its beginning to its end, on any driver: what is sent when, and what each answer means.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oncekey_core::{Event, Timestamp};
use oncekey_store::{Begun, Claim, Closed, Ending, Found, Outcome, StoreError, Transaction};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tokio_postgres::types::{ToSql, Type};

use super::TransactionOptions;
use super::protocol::{Opened, Rows, Script, Value, WRITE, Written};
use super::trouble::Trouble;
use crate::error::Failure;
use crate::lookup;
use crate::session::{Param, Server, Session};
use crate::store::PostgresStore;

/// How often a claim is tried whose connection breaks or whose record goes away meanwhile.
const TRIES: u32 = 5;

/// When a record expires, and when it was written.
pub(super) type Times = (Timestamp, Timestamp);

/// A pool of the user's driver.
pub(super) trait Pool: Send + Sync + 'static {
    type Connection: Connection;

    /// A connection with a transaction begun on it.
    fn begin(&self, script: &Script) -> impl Future<Output = Result<(Self::Connection, Rows), Trouble>> + Send;

    /// The rows of a statement by itself.
    fn ask(&self, sql: String) -> impl Future<Output = Result<Rows, Trouble>> + Send;
}

/// A connection with a transaction on it. Dropping it rolls back and lets no other have the connection as it is.
pub(super) trait Connection: Sized + Send + 'static {
    /// What the transaction and its handler share.
    type Lent: Lent<Connection = Self>;

    /// Makes it the handler's.
    fn lend(self) -> Arc<Self::Lent>;

    /// Runs statements without parameters.
    fn run(&mut self, sql: &str) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Runs `before`, [`WRITE`] and COMMIT. None of them has an effect if one before it fails; the failure is the first one's.
    fn commit(&mut self, before: &str, values: &[Value<'_>]) -> impl Future<Output = Result<Times, Trouble>> + Send;

    /// Gives it back, with no transaction on it.
    fn release(self) -> impl Future<Output = ()> + Send;
}

/// A connection as long as it is the handler's.
pub(super) trait Lent: Send + Sync + 'static {
    type Connection: Connection;

    /// What the handler's type is made from.
    fn handle(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Takes the connection back once no statement of the handler's is running any more; from then on it gets errors.
    fn take_back(&self) -> impl Future<Output = Option<Self::Connection>> + Send;

    /// Whether a statement of the handler's failed since it met another transaction.
    fn has_met_another(&self) -> bool;
}

/// What all transactions of a pool stand on.
pub(super) struct Ground {
    server: Arc<Server>,
    options: TransactionOptions,
    /// A connection of the store's own, for looking and for ending what is stuck.
    aside: Session,
}

impl Ground {
    /// Fails unless a pool's connections see the tables of the store, and may write them.
    pub(super) async fn new(
        store: &PostgresStore,
        options: TransactionOptions,
        pool: &impl Pool,
    ) -> Result<Arc<Self>, StoreError> {
        let server = Arc::clone(store.server());
        let ground = Arc::new(Self { aside: Session::new(&server), server, options });
        ground.verify(pool).await?;
        Ok(ground)
    }

    /// Puts a mark into the store's database and looks for it by the pool: whatever URLs, poolers and search paths say, that
    /// is the same table or it isn't.
    async fn verify(&self, pool: &impl Pool) -> Result<(), StoreError> {
        const MARK: &str = "\
            INSERT INTO idempotency_nodes (owner, alive_until) VALUES (uuid_send(gen_random_uuid()), '-infinity') \
            RETURNING encode(owner, 'hex')";
        const UNMARK: &str = "DELETE FROM idempotency_nodes WHERE owner = decode($1, 'hex')";
        let marked = self.aside.query(MARK, &[]).await.map_err(Failure::while_opening)?;
        let mark: String = marked
            .first()
            .and_then(|row| row.try_get(0).ok())
            .ok_or(Failure::Refused("the mark was not made"))
            .map_err(Failure::not_applied)?;
        let looked = timeout(self.options.wait + self.patience(), pool.ask(format!(
            "SELECT EXISTS (SELECT FROM idempotency_nodes WHERE owner = decode('{mark}', 'hex'))::text, \
                 (has_table_privilege('idempotency_keys', 'SELECT') AND has_table_privilege('idempotency_keys', 'INSERT') \
                     AND has_table_privilege('idempotency_keys', 'UPDATE') \
                     AND has_table_privilege('idempotency_nodes', 'UPDATE') \
                     AND has_sequence_privilege('idempotency_claims', 'USAGE'))::text"
        )))
        .await
        .unwrap_or(Err(Trouble::TookTooLong));
        self.aside.query(UNMARK, &[(&mark, Type::TEXT)]).await.map_err(Failure::while_opening)?;
        let misplaced = |what| Err(StoreError::Misconfigured(Trouble::Misplaced(what).into()));
        match looked {
            Ok(rows) => match rows.first().map(Vec::as_slice) {
                Some([Some(there), Some(allowed)]) if there == "true" && allowed == "true" => Ok(()),
                Some([Some(there), _]) if there == "true" => misplaced(
                    "the pool's role may not write oncekey's tables: it needs SELECT, INSERT and UPDATE on idempotency_keys, \
                     SELECT and UPDATE on idempotency_nodes, and USAGE on the sequence idempotency_claims",
                ),
                _ => misplaced(
                    "the pool's connections see other tables than the store: both must be on one database, and the same \
                     schema must come first in their search_path",
                ),
            },
            Err(trouble) if trouble.lacks_table() => misplaced(
                "the pool's connections don't see oncekey's tables: the pool must be on the store's database, with their \
                 schema in its search_path",
            ),
            Err(trouble) => Err(trouble.not_applied()),
        }
    }

    fn patience(&self) -> Duration {
        self.server.options().patience
    }

    fn now(&self) -> Option<Timestamp> {
        self.server.given_time().map(|at| at.0)
    }

    /// See [`oncekey_store::Transactions::begin`].
    pub(super) async fn begin<P: Pool>(self: &Arc<Self>, pool: &P, claim: Claim) -> Result<Begun, StoreError> {
        let mut last = Trouble::NoConnection("those of the pool were broken".to_owned());
        for _ in 0..TRIES {
            let script = Script::new(&claim, &self.options, self.now());
            let (mut connection, rows) = match timeout(self.options.wait + self.patience(), pool.begin(&script)).await {
                Ok(Ok(begun)) => begun,
                // Nothing is committed in it, whatever became of it: one that was idle may have been broken for long.
                Ok(Err(trouble @ Trouble::Broken(_))) => {
                    last = trouble;
                    continue;
                }
                Ok(Err(trouble)) => return Err(trouble.not_applied()),
                Err(_) => return Err(Trouble::TookTooLong.not_applied()),
            };
            let opened = Opened::read(&rows).map_err(Trouble::not_applied)?;
            let attempt = opened.attempt(&claim);
            if let (true, Some(attempt)) = (opened.locked, attempt) {
                let lent = connection.lend();
                let ground = Arc::clone(self);
                let open =
                    Open { ground, claim, script, pid: opened.pid, started: opened.now, attempt, lent: Some(lent) };
                return Ok(Begun::Open { attempt, transaction: Box::new(open) });
            }
            if let Ok(Ok(())) = timeout(self.patience(), connection.run("ROLLBACK")).await {
                connection.release().await;
            }
            if !opened.locked {
                return Ok(Begun::Busy);
            }
            // Gone in the moment between: then the claim is a first one.
            if let Some(found) = self.found(&claim).await? {
                return Ok(Begun::Held(Box::new(found)));
            }
        }
        Err(last.not_applied())
    }

    async fn found(&self, claim: &Claim) -> Result<Option<Found>, StoreError> {
        let id = claim.identity.id();
        let found = lookup::read(&self.aside, id).await.map_err(Failure::not_applied)?;
        match found {
            Some(found) if found.record.identity != claim.identity => {
                Err(Failure::Corrupt { id, what: "two operations share the id" }.not_applied())
            }
            found => Ok(found),
        }
    }

    /// Ends the session that holds a claim's lock, if it does.
    async fn terminate(&self, pid: i32, lock: i64) -> Result<bool, Failure> {
        let ended = self.aside.query(Script::TERMINATE, &[(&pid, Type::INT4), (&lock, Type::INT8)]).await?;
        Ok(!ended.is_empty())
    }
}

/// An open transaction.
struct Open<L: Lent> {
    ground: Arc<Ground>,
    claim: Claim,
    script: Script,
    pid: i32,
    started: Timestamp,
    attempt: u32,
    /// `None` once it is being ended.
    lent: Option<Arc<L>>,
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
    async fn finish(&self, lent: &L, ending: Ending) -> Result<Closed, StoreError> {
        // Its last statement may be running still, if it was given up or left to another task.
        let taken = timeout(self.ground.server.options().lock_timeout, lent.take_back()).await.ok().flatten();
        let met = lent.has_met_another();
        let Some(mut connection) = taken else { return self.wrest(matches!(ending, Ending::RollBack)).await };
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
    async fn wrest(&self, rolling_back: bool) -> Result<Closed, StoreError> {
        match self.ground.terminate(self.pid, self.script.lock).await {
            Ok(true) if rolling_back => Ok(Closed::RolledBack),
            Ok(true) => Err(Trouble::Kept.not_applied()),
            Ok(false) => self.foreign().await,
            Err(_) if rolling_back => Ok(Closed::RolledBack),
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
        if trouble.met_another() || (trouble.is_aborted() && met) {
            return Ok(Closed::Again);
        }
        if trouble.is_aborted() {
            return Err(Trouble::Aborted.not_applied());
        }
        if trouble.is_in_the_way()
            && let Some(found) = self.ground.found(&self.claim).await?
        {
            return Ok(Closed::Met(Box::new(found)));
        }
        Err(trouble.not_applied())
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
            if let Err(failure) = self.ground.aside.query(WRITE, &params).await {
                tracing::error!(operation = %id, %failure, "the unknown outcome was not recorded");
            }
        }
        Err(StoreError::MayHaveBeenApplied(Trouble::Foreign.into()))
    }
}

impl Value<'_> {
    /// As tokio-postgres takes it.
    pub(super) fn param(&self) -> Param<'_> {
        fn typed<'a>(value: &'a (dyn ToSql + Sync), of: Type) -> Param<'a> {
            (value, of)
        }
        match self {
            Self::Bytes(bytes) => typed(bytes, Type::BYTEA),
            Self::Text(text) => typed(text, Type::TEXT),
            Self::Int(number) => typed(number, Type::INT8),
            Self::Small(number) => typed(number, Type::INT2),
            Self::Bool(yes) => typed(yes, Type::BOOL),
        }
    }
}
