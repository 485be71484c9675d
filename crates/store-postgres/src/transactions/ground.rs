//! What all transactions of a pool stand on, and how each begins.

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::Timestamp;
use oncekey_store::change::{self, OnClaim};
use oncekey_store::{Begun, Claim, Found, StoreError};
use tokio::time::timeout;
use tokio_postgres::types::Type;

use super::driver::{Connection, Pool};
use super::open::Open;
use super::protocol::{Opened, Script};
use super::trouble::Trouble;
use super::{Isolation, TransactionOptions};
use crate::error::Failure;
use crate::lookup;
use crate::session::{Server, Session};
use crate::store::PostgresStore;

/// How often a claim is tried whose connection breaks or whose record goes away meanwhile.
const TRIES: u32 = 5;

/// What a look for the record before the transaction found.
enum Looked {
    /// It is looked for in the transaction.
    NotYet,
    Held(Box<Found>),
    Free {
        attempt: u32,
    },
}

/// What all transactions of a pool stand on.
pub(super) struct Ground {
    pub(super) server: Arc<Server>,
    options: TransactionOptions,
    /// A connection of the store's own, for looking and for ending what is stuck.
    pub(super) aside: Session,
    /// Whether a record is looked for outside of the transaction, before it begins. Under SERIALIZABLE a look for a record that
    /// isn't there counts as having read all that stand on its page, and concurrent transactions that have nothing to do with
    /// each other would fail to serialize. What the look misses, writing the record finds.
    looks_apart: bool,
}

impl Ground {
    /// Fails unless a pool's connections see the tables of the store, and may write them.
    pub(super) async fn new(
        store: &PostgresStore,
        options: TransactionOptions,
        pool: &impl Pool,
    ) -> Result<Arc<Self>, StoreError> {
        let server = Arc::clone(store.server());
        let looks_apart = options.isolation == Isolation::Serializable;
        let mut ground = Self { aside: Session::new(&server), server, options, looks_apart };
        let is_serializable = ground.verify(pool).await?;
        ground.looks_apart |= is_serializable && ground.options.isolation == Isolation::Default;
        Ok(Arc::new(ground))
    }

    /// Puts a mark into the store's database and looks for it by the pool: whatever URLs, poolers and search paths say, that
    /// is the same table or it isn't. It is a node that lives for a while and claims nothing: of a dead one sweeps would make away.
    /// Tells whether the pool's transactions are SERIALIZABLE by default.
    async fn verify(&self, pool: &impl Pool) -> Result<bool, StoreError> {
        const MARK: &str = "\
            INSERT INTO idempotency_nodes (owner, alive_until) \
            VALUES (uuid_send(gen_random_uuid()), coalesce($1, clock_timestamp()) + interval '10 minutes') \
            RETURNING encode(owner, 'hex')";
        const UNMARK: &str = "DELETE FROM idempotency_nodes WHERE owner = decode($1, 'hex')";
        let now = self.server.given_time();
        let marked = self.aside.query(MARK, &[(&now, Type::TIMESTAMPTZ)]).await.map_err(Failure::while_opening)?;
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
                     AND has_sequence_privilege('idempotency_claims', 'USAGE'))::text, \
                 current_setting('default_transaction_isolation')"
        )))
        .await
        .unwrap_or(Err(Trouble::TookTooLong));
        self.aside.query(UNMARK, &[(&mark, Type::TEXT)]).await.map_err(Failure::while_opening)?;
        let misplaced = |what| Err(StoreError::Misconfigured(Trouble::Misplaced(what).into()));
        match looked {
            Ok(rows) => match rows.first().map(Vec::as_slice) {
                Some([Some(there), Some(allowed), isolation]) if there == "true" && allowed == "true" => {
                    Ok(isolation.as_deref() == Some("serializable"))
                }
                Some([Some(there), ..]) if there == "true" => misplaced(
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

    pub(super) fn patience(&self) -> Duration {
        self.server.options().patience
    }

    pub(super) fn now(&self) -> Option<Timestamp> {
        self.server.given_time().map(|at| at.0)
    }

    /// See [`oncekey_store::Transactions::begin`].
    pub(super) async fn begin<P: Pool>(self: &Arc<Self>, pool: &P, claim: Claim) -> Result<Begun, StoreError> {
        let mut last = Trouble::NoConnection("those of the pool were broken".to_owned());
        for _ in 0..TRIES {
            let looked = if self.looks_apart { self.look(&claim).await? } else { Looked::NotYet };
            if let Looked::Held(found) = looked {
                return Ok(Begun::Held(found));
            }
            let script = Script::new(&claim, &self.options, self.now(), !self.looks_apart);
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
            let attempt = match looked {
                Looked::Free { attempt } => Some(attempt),
                Looked::NotYet | Looked::Held(_) => opened.attempt(&claim),
            };
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

    async fn look(&self, claim: &Claim) -> Result<Looked, StoreError> {
        let found = self.found(claim).await?;
        let standing = found.as_ref().map(|found| (&found.record, found.owner_alive));
        let now = found.as_ref().map_or(Timestamp::from_micros(0), |found| found.now);
        Ok(match (change::on_claim(standing, claim, now), found) {
            (OnClaim::Put(record), _) => Looked::Free { attempt: record.attempts },
            (OnClaim::Own { .. } | OnClaim::Held, Some(found)) => Looked::Held(Box::new(found)),
            (OnClaim::Own { .. } | OnClaim::Held, None) => Looked::NotYet,
        })
    }

    pub(super) async fn found(&self, claim: &Claim) -> Result<Option<Found>, StoreError> {
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
    pub(super) async fn terminate(&self, pid: i32, lock: i64) -> Result<bool, Failure> {
        let ended = self.aside.query(Script::TERMINATE, &[(&pid, Type::INT4), (&lock, Type::INT8)]).await?;
        Ok(!ended.is_empty())
    }
}
