//! Recovery points: named steps that a handler saves, and from which its next execution goes on (E7).
//!
//! A step is a row beside the record, under the record's beginning of life. Every write of one compares the execution's token
//! with the record and holds the record until the commit, so an execution that was taken over writes nothing more (E4), and
//! the one that took over has seen all that was saved before (decision 0057).

mod error;
mod saving;

use std::sync::Arc;

use axum_core::extract::{FromRef, FromRequestParts};
use http::Extensions;
use http::request::Parts;
use oncekey_store::{Fence, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::driver::{Connection, Lent, Pool};
use super::ground::Ground;
use super::handle::PgTransaction;
use super::pooled::Clients;
use super::trouble::Trouble;
use super::{TransactionOptions, protocol};
use crate::store::PostgresStore;
use saving::{OPENING, Reading, Saving};

pub use error::PgStepsError;

/// Where handlers save their steps: the store's own database, by a pool of connections of tokio-postgres. A clone shares them.
///
/// For routes with `OnUnknown::Retry`, whose handlers are executed again after a crash. A handler gets its [`PgSteps`] by
/// axum's extractor, if this is (part of) the state, or by [`PgRecoveryPoints::of`].
#[derive(Clone)]
pub struct PgRecoveryPoints(Arc<Points>);

struct Points {
    ground: Arc<Ground>,
    pool: Clients,
    options: TransactionOptions,
}

impl PgRecoveryPoints {
    /// With a pool of its own, of at most `size` connections to where the store is.
    ///
    /// Fails as `NotApplied` if the server can't be reached.
    pub async fn open(store: &PostgresStore, size: usize, options: TransactionOptions) -> Result<Self, StoreError> {
        Self::over(store, Clients::own(store, size, options.clone())?, options).await
    }

    /// With the user's own pool, whose connections are used as they come.
    ///
    /// Fails as `Misconfigured` if the pool isn't on the store's database, doesn't see the same tables, or may not write them.
    pub async fn with_pool(
        store: &PostgresStore,
        pool: deadpool_postgres::Pool,
        options: TransactionOptions,
    ) -> Result<Self, StoreError> {
        Self::over(store, Clients::users(pool, options.clone()), options).await
    }

    async fn over(store: &PostgresStore, pool: Clients, options: TransactionOptions) -> Result<Self, StoreError> {
        let ground = Ground::new(store, options.clone(), &pool).await?;
        let allowed = "SELECT (has_table_privilege('idempotency_steps', 'SELECT') \
                           AND has_table_privilege('idempotency_steps', 'INSERT'))::text";
        let asked = timeout(options.wait + ground.patience(), pool.ask(allowed.to_owned())).await;
        let rows = asked.unwrap_or(Err(Trouble::TookTooLong)).map_err(Trouble::not_applied)?;
        if rows != [[Some("true".to_owned())]] {
            let trouble = Trouble::Misplaced("the pool's role needs SELECT and INSERT on idempotency_steps");
            return Err(StoreError::Misconfigured(trouble.into()));
        }
        Ok(Self(Arc::new(Points { ground, pool, options })))
    }

    /// The steps of the operation that a request with these extensions executes: for hyper and tonic, or without an extractor.
    /// Fails with [`PgStepsError::Unclaimed`] for a request that oncekey doesn't guard, or in transactional mode.
    pub fn of(&self, extensions: &Extensions) -> Result<PgSteps, PgStepsError> {
        extensions.get::<Fence>().map(|fence| self.steps(*fence)).ok_or(PgStepsError::Unclaimed)
    }

    /// The steps of an execution: for jobs, which find theirs in their `Attempt`.
    pub fn steps(&self, fence: Fence) -> PgSteps {
        PgSteps { points: Arc::clone(&self.0), fence }
    }
}

impl std::fmt::Debug for PgRecoveryPoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PgRecoveryPoints")
    }
}

/// What an execution of an operation saves for the next one, if it doesn't come to its end.
///
/// A step has a name of 1 to 64 bytes and a value, which is kept as JSON of at most 64 KiB, and can be saved once. Steps are
/// there as long as the operation's record is; when a key is used afresh after its record has expired, there are none.
///
/// With an error a handler should answer that nobody knows the outcome, so that a retry goes on: [`PgStepsError`] as an
/// answer of axum's says so. It must not answer that all went well.
#[derive(Clone)]
pub struct PgSteps {
    points: Arc<Points>,
    fence: Fence,
}

impl PgSteps {
    /// What was saved under this name, by this execution or one before. Fails with [`PgStepsError::TakenOver`] if this
    /// execution isn't the operation's any more.
    pub async fn saved<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, PgStepsError> {
        let value = self.value(name).await?;
        Ok(value.map(|value| serde_json::from_str(&value)).transpose()?)
    }

    /// Saves a value under a name: it is there for the next execution once this returns. To save the same value again
    /// changes nothing; another one is [`PgStepsError::SavedBefore`].
    ///
    /// Fails with [`PgStepsError::TakenOver`], and saves nothing, if this execution isn't the operation's any more (E4). After
    /// any other error, or when the future is dropped, it may have been saved or not.
    pub async fn save<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<(), PgStepsError> {
        let saving = Saving::new(Reading::new(&self.fence, name), value, self.points.ground.now())?;
        match self.points.query(saving::SAVE, &saving.params()).await {
            Ok(_) => Ok(()),
            // Perhaps by this very call, whose first connection broke.
            Err(trouble) if trouble.is_saved_before() => match self.value(name).await? {
                Some(saved) if saved == saving.value() => Ok(()),
                _ => Err(PgStepsError::SavedBefore),
            },
            Err(trouble) => Err(error::of_saving(trouble)),
        }
    }

    /// Runs work in a transaction that saves its value as a step: both are committed together or not at all, and so at most
    /// once, whatever crashes. Where there is such a step, gives its value and runs nothing. The value is given back as it
    /// was; later executions get what JSON makes of it.
    ///
    /// The transaction is begun with the [`TransactionOptions`]. An error of the work rolls back; one of its own is made by
    /// [`PgStepsError::rolled_back`]. The work is not run again by itself, also not after a deadlock: a retry does that.
    /// It should wait for nothing but the database, and loses its transaction if it is silent for a minute.
    ///
    /// Fails with [`PgStepsError::TakenOver`], and commits nothing, if this execution isn't the operation's any more (E4).
    /// After [`StoreError::MayHaveBeenApplied`], and when the future is dropped, it may have been committed or not: the next
    /// execution finds out.
    pub async fn transaction<T, W, F>(&self, name: &str, work: W) -> Result<T, PgStepsError>
    where
        T: Serialize + DeserializeOwned,
        W: FnOnce(PgTransaction) -> F,
        F: Future<Output = Result<T, PgStepsError>>,
    {
        if let Some(saved) = self.saved(name).await? {
            return Ok(saved);
        }
        let points = &self.points;
        let lent = points.begin().await?.lend();
        let worked = work(PgTransaction(Arc::clone(&lent))).await;
        // A statement may be running still, if it was left to another task.
        let taken = timeout(points.options.lock_timeout, lent.take_back()).await.ok().flatten();
        let mut connection = taken.ok_or_else(|| Trouble::Kept.not_applied())?;
        let saving = worked
            .and_then(|value| Ok((Saving::new(Reading::new(&self.fence, name), &value, points.ground.now())?, value)));
        let (saving, value) = match saving {
            Ok(saving) => saving,
            Err(error) => {
                // Without its connection it is rolled back as well.
                if let Ok(Ok(())) = timeout(points.ground.patience(), connection.run("ROLLBACK")).await {
                    connection.release().await;
                }
                return Err(error);
            }
        };
        let committed =
            timeout(points.ground.patience(), saving.commit(&connection, points.ground.server.options().lock_timeout))
                .await;
        match committed.unwrap_or(Err(Trouble::TookTooLong.of_write().into())) {
            Ok(()) => {
                connection.release().await;
                Ok(value)
            }
            Err(error) => Err(error),
        }
    }

    /// The key for a call of another service in this step: the same for every execution of the operation, and another one for
    /// each step. Whoever honours it has one effect for all calls. See `RecordId::step_key`.
    pub fn key(&self, step: &str) -> String {
        self.fence.id.step_key(step)
    }

    async fn value(&self, name: &str) -> Result<Option<String>, PgStepsError> {
        let rows = self.points.query(saving::READ, &Reading::new(&self.fence, name).params()).await;
        let rows = rows.map_err(Trouble::not_applied)?;
        let row = rows.first().ok_or(PgStepsError::TakenOver)?;
        row.try_get(0).map_err(|error| Trouble::from(error).not_applied().into())
    }
}

impl std::fmt::Debug for PgSteps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PgSteps").field("operation", &self.fence.id).finish_non_exhaustive()
    }
}

impl<S> FromRequestParts<S> for PgSteps
where
    S: Send + Sync,
    PgRecoveryPoints: FromRef<S>,
{
    type Rejection = PgStepsError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PgStepsError> {
        PgRecoveryPoints::from_ref(state).of(&parts.extensions)
    }
}

/// How often a connection that was broken for long may come from the pool.
const TRIES: u32 = 5;

impl Points {
    /// A statement that may be repeated, by itself.
    async fn query(
        &self,
        sql: &str,
        params: &[crate::session::Param<'_>],
    ) -> Result<Vec<tokio_postgres::Row>, Trouble> {
        let mut last = Trouble::Unexpected;
        for _ in 0..TRIES {
            let asked = timeout(self.options.wait + self.ground.patience(), self.pool.query(sql, params)).await;
            match asked.unwrap_or(Err(Trouble::TookTooLong)) {
                Err(trouble @ Trouble::Broken(_)) => last = trouble,
                answer => return answer,
            }
        }
        Err(last)
    }

    async fn begin(&self) -> Result<super::pooled::PooledClient, StoreError> {
        let opening = format!("{}; {}", protocol::begin(&self.options, saving::IDLE), *OPENING);
        let mut last = Trouble::Unexpected;
        for _ in 0..TRIES {
            let begun = timeout(self.options.wait + self.ground.patience(), self.pool.opened(&opening)).await;
            match begun.unwrap_or(Err(Trouble::TookTooLong)) {
                Ok((connection, _)) => return Ok(connection),
                Err(trouble @ Trouble::Broken(_)) => last = trouble,
                Err(trouble) => return Err(trouble.not_applied()),
            }
        }
        Err(last.not_applied())
    }
}
