//! What a handler works with on sqlx.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::sqlx::postgres::{PgQueryResult, PgRow, PgStatement, PgTransactionManager, PgTypeInfo};
use ::sqlx::{Acquire, Describe, Either, Error, Execute, Executor, PgConnection, Postgres, SqlStr, Transaction};
use ::sqlx_core::transaction::TransactionManager;
use axum_core::extract::FromRequestParts;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use http::Extensions;
use http::request::Parts;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::driver::Lent;
use super::extract::{NoTransaction, lent};
use super::sqlx::PooledTransaction;
use super::trouble::met_another;

/// The connection while it is the handler's.
pub(super) struct LentTransaction {
    connection: Arc<Mutex<SqlxConnection>>,
    met: Arc<AtomicBool>,
}

impl LentTransaction {
    pub(super) fn new(transaction: PooledTransaction) -> Self {
        let met = Arc::<AtomicBool>::default();
        let PooledTransaction { transaction, is_lost } = transaction;
        let connection = SqlxConnection { transaction, is_lost, met: Arc::clone(&met) };
        Self { connection: Arc::new(Mutex::new(connection)), met }
    }
}

impl Lent for LentTransaction {
    type Connection = PooledTransaction;

    fn handle(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    async fn take_back(&self) -> Option<PooledTransaction> {
        let mut connection = self.connection.lock().await;
        let (mut transaction, is_lost) = (connection.transaction.take()?, connection.is_lost);
        // Savepoints that were never dropped: sqlx would take what ends the transaction for their end.
        while PgTransactionManager::get_transaction_depth(&transaction) > 1 {
            PgTransactionManager::start_rollback(&mut transaction);
        }
        Some(PooledTransaction { transaction: Some(transaction), is_lost })
    }

    fn has_met_another(&self) -> bool {
        self.met.load(Ordering::Acquire)
    }
}

/// The transaction that a handler works in: it commits with the record of the handler's answer, or not at all (G3).
///
/// An extractor of axum; elsewhere [`SqlxTransaction::of`] takes it from a request's extensions. As with sqlx's own
/// transaction, statements run on what it dereferences to: `sqlx::query("…").execute(&mut *tx)`.
///
/// A request has one, and whoever extracts it has it until it is dropped. It must not be kept longer than the handler runs:
/// else everything is rolled back.
#[derive(Debug)]
pub struct SqlxTransaction(OwnedMutexGuard<SqlxConnection>);

impl SqlxTransaction {
    /// The transaction of a request with these extensions: how hyper and tonic handlers come by it.
    pub fn of(extensions: &Extensions) -> Result<Self, NoTransaction> {
        let lent = lent::<LentTransaction>(extensions)?;
        Arc::clone(&lent.connection).try_lock_owned().map(Self).map_err(|_| NoTransaction::Taken)
    }
}

impl Deref for SqlxTransaction {
    type Target = SqlxConnection;

    fn deref(&self) -> &SqlxConnection {
        &self.0
    }
}

impl DerefMut for SqlxTransaction {
    fn deref_mut(&mut self) -> &mut SqlxConnection {
        &mut self.0
    }
}

impl<S: Sync> FromRequestParts<S> for SqlxTransaction {
    type Rejection = NoTransaction;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoTransaction> {
        Self::of(&parts.extensions)
    }
}

/// The connection of a [`SqlxTransaction`]: `&mut` of it is an `Executor` and can be `Acquire`d, which `begin`s a savepoint.
///
/// It notes failures to serialize and deadlocks, after which the handler is run again whatever it made of them. Don't send
/// `COMMIT` or `ROLLBACK` by it: a handler that ends the transaction is found out, and its operation counts as `unknown`.
#[derive(Debug)]
pub struct SqlxConnection {
    transaction: Option<Transaction<'static, Postgres>>,
    /// Whether a savepoint could not be set, or setting it was given up. sqlx rolls back the whole transaction then, and each statement
    /// after it would commit by itself.
    is_lost: bool,
    met: Arc<AtomicBool>,
}

impl SqlxConnection {
    /// The connection itself, for what asks for just that. Set savepoints by the handle's own `begin`: where one can't be set, sqlx rolls
    /// back the whole transaction, and only there it is noticed at once. Of failures that are met on it nothing is noted: they end as the
    /// handler answers them, and its client's retry runs anew.
    pub fn connection(&mut self) -> Result<&mut PgConnection, Error> {
        if self.is_lost {
            return Err(Error::Protocol(
                "the transaction was rolled back, for a savepoint could not be set".to_owned(),
            ));
        }
        self.transaction.as_deref_mut().ok_or_else(ended)
    }

    /// What notes a failure.
    fn noting(&self) -> impl Fn(&Error) + Send + Sync + use<> {
        let met = Arc::clone(&self.met);
        move |error| {
            let code = error.as_database_error().and_then(::sqlx::error::DatabaseError::code);
            if code.is_some_and(|code| met_another(&code)) {
                met.store(true, Ordering::Release);
            }
        }
    }
}

fn ended() -> Error {
    Error::Protocol("the transaction has ended: it lasts as long as its handler runs".to_owned())
}

impl<'c> Executor<'c> for &'c mut SqlxConnection {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let note = self.noting();
        match self.connection() {
            Ok(connection) => connection.fetch_many(query).inspect_err(note).boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let note = self.noting();
        match self.connection() {
            Ok(connection) => connection.fetch_optional(query).inspect_err(note).boxed(),
            Err(error) => futures_util::future::ready(Err(error)).boxed(),
        }
    }

    fn prepare_with<'e>(self, sql: SqlStr, parameters: &'e [PgTypeInfo]) -> BoxFuture<'e, Result<PgStatement, Error>>
    where
        'c: 'e,
    {
        let note = self.noting();
        match self.connection() {
            Ok(connection) => connection.prepare_with(sql, parameters).inspect_err(note).boxed(),
            Err(error) => futures_util::future::ready(Err(error)).boxed(),
        }
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<Postgres>, Error>>
    where
        'c: 'e,
    {
        match self.connection() {
            Ok(connection) => connection.describe(sql),
            Err(error) => futures_util::future::ready(Err(error)).boxed(),
        }
    }
}

impl<'c> Acquire<'c> for &'c mut SqlxConnection {
    type Database = Postgres;
    type Connection = &'c mut PgConnection;

    fn acquire(self) -> BoxFuture<'c, Result<Self::Connection, Error>> {
        futures_util::future::ready(self.connection()).boxed()
    }

    fn begin(self) -> BoxFuture<'c, Result<Transaction<'c, Postgres>, Error>> {
        async move {
            let note = self.noting();
            self.connection()?;
            let SqlxConnection { transaction, is_lost, .. } = self;
            let transaction = transaction.as_mut().ok_or_else(ended)?;
            *is_lost = true;
            let savepoint = ::sqlx::Connection::begin(&mut **transaction).await.inspect_err(note)?;
            *is_lost = false;
            Ok(savepoint)
        }
        .boxed()
    }
}
