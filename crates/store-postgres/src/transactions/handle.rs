//! What a handler works with on tokio-postgres.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::{RwLock, RwLockReadGuard};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, SimpleQueryMessage, Statement, ToStatement};

use super::driver::{Connection, Lent};
use super::pooled::PooledClient;
use super::trouble::met_another;

/// A parameter of a statement.
type Parameter<'a> = &'a (dyn ToSql + Sync);

/// The connection while it is the handler's.
pub(super) struct LentClient {
    client: RwLock<Option<PooledClient>>,
    met: AtomicBool,
    /// What undoes the savepoints that were dropped. Run before the next statement.
    undo: Mutex<String>,
}

impl LentClient {
    pub(super) fn new(client: PooledClient) -> Self {
        Self { client: RwLock::new(Some(client)), met: AtomicBool::new(false), undo: Mutex::default() }
    }
}

impl Lent for LentClient {
    type Connection = PooledClient;

    fn handle(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    async fn take_back(&self) -> Option<PooledClient> {
        let mut client = self.client.write().await.take()?;
        let undo = std::mem::take(&mut *self.undo.lock());
        if !undo.is_empty() {
            // Where this fails, what comes next fails too.
            let _ = client.run(&undo).await;
        }
        Some(client)
    }

    fn has_met_another(&self) -> bool {
        self.met.load(Ordering::Acquire)
    }
}

/// Why a statement of a handler's was not executed.
#[derive(Debug, thiserror::Error)]
pub enum PgTransactionError {
    /// What tokio-postgres says.
    #[error(transparent)]
    Postgres(#[from] tokio_postgres::Error),
    /// The request that the transaction belonged to has been answered, and the transaction has ended.
    #[error("the transaction has ended: it lasts as long as its handler runs")]
    Ended,
}

/// The transaction that a handler works in: it commits with the record of the handler's answer, or not at all (G3).
///
/// An extractor of axum; elsewhere [`PgTransaction::of`] takes it from a request's extensions. Its methods are those of
/// `tokio_postgres::Client`. It may be cloned and used by several tasks at once, whose statements the server takes one after
/// another, but only as long as the handler runs: afterwards each method fails.
///
/// Don't send `COMMIT`, `ROLLBACK` or `SET TRANSACTION` by it. A handler that ends the transaction is found out, and its
/// operation counts as `unknown`. Dropping a method's future doesn't undo a statement that was sent.
#[derive(Clone)]
pub struct PgTransaction(pub(super) Arc<LentClient>);

impl PgTransaction {
    async fn client(&self) -> Result<RwLockReadGuard<'_, PooledClient>, PgTransactionError> {
        let client = self.0.client.read().await;
        let client = RwLockReadGuard::try_map(client, Option::as_ref).map_err(|_| PgTransactionError::Ended)?;
        let undo = std::mem::take(&mut *self.0.undo.lock());
        if !undo.is_empty() {
            self.noting(client.get().map_err(|_| PgTransactionError::Ended)?.batch_execute(&undo).await)?;
        }
        Ok(client)
    }

    /// Runs the body with the client, and notes how it failed.
    fn noting<T>(&self, answer: Result<T, tokio_postgres::Error>) -> Result<T, PgTransactionError> {
        answer.map_err(|error| {
            if error.code().is_some_and(|code| met_another(code.code())) {
                self.0.met.store(true, Ordering::Release);
            }
            error.into()
        })
    }
}

/// Methods that are the client's own.
macro_rules! as_the_client {
    ($($(#[$doc:meta])* $name:ident $(<$generic:ident>)? ($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl PgTransaction {
            $($(#[$doc])*
            pub async fn $name $(<$generic: ?Sized + ToStatement + Sync>)? (&self, $($argument: $type),*)
                -> Result<$answer, PgTransactionError>
            {
                let client = self.client().await?;
                let client = client.get().map_err(|_| PgTransactionError::Ended)?;
                self.noting(client.$name($($argument),*).await)
            })*
        }
    };
}

as_the_client! {
    /// Executes a statement and gives its rows.
    query<T>(statement: &T, params: &[Parameter<'_>]) -> Vec<Row>;
    /// The same for a statement that gives one row; anything else is an error.
    query_one<T>(statement: &T, params: &[Parameter<'_>]) -> Row;
    /// The same for one that gives at most one row.
    query_opt<T>(statement: &T, params: &[Parameter<'_>]) -> Option<Row>;
    /// Executes a statement whose parameters' types are named, without preparing it: a round trip less.
    query_typed(statement: &str, params: &[(Parameter<'_>, Type)]) -> Vec<Row>;
    /// Executes a statement and gives the number of rows that it changed.
    execute<T>(statement: &T, params: &[Parameter<'_>]) -> u64;
    /// The same with the parameters' types named, without preparing it.
    execute_typed(statement: &str, params: &[(Parameter<'_>, Type)]) -> u64;
    /// Executes statements without parameters, separated by semicolons.
    batch_execute(statements: &str) -> ();
    /// The same, and gives their rows as text.
    simple_query(statements: &str) -> Vec<SimpleQueryMessage>;
    /// Prepares a statement. It is good for this transaction only.
    prepare(statement: &str) -> Statement;
    /// The same with the types of parameters named.
    prepare_typed(statement: &str, types: &[Type]) -> Statement;
    /// Prepares a statement once for each connection of the pool. Not with PgBouncer in transaction mode.
    prepare_cached(statement: &str) -> Statement;
}

impl PgTransaction {
    /// Sets a savepoint. What is done from now on can be undone by itself.
    pub async fn savepoint(&self, name: &str) -> Result<PgSavepoint, PgTransactionError> {
        let name = format!("\"{}\"", name.replace('"', "\"\""));
        self.batch_execute(&format!("SAVEPOINT {name}")).await?;
        Ok(PgSavepoint { transaction: self.clone(), name, is_open: true })
    }
}

impl std::fmt::Debug for PgTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PgTransaction")
    }
}

/// A part of a transaction that can be undone by itself. Dropping it undoes it, before the transaction's next statement.
#[derive(Debug)]
pub struct PgSavepoint {
    transaction: PgTransaction,
    name: String,
    is_open: bool,
}

impl PgSavepoint {
    /// Keeps what was done since it was set.
    pub async fn commit(mut self) -> Result<(), PgTransactionError> {
        self.is_open = false;
        self.transaction.batch_execute(&format!("RELEASE SAVEPOINT {}", self.name)).await
    }

    /// Undoes what was done since it was set.
    pub async fn rollback(mut self) -> Result<(), PgTransactionError> {
        self.is_open = false;
        self.transaction.batch_execute(&self.undo()).await
    }

    fn undo(&self) -> String {
        format!("ROLLBACK TO SAVEPOINT {0}; RELEASE SAVEPOINT {0}; ", self.name)
    }
}

impl Deref for PgSavepoint {
    type Target = PgTransaction;

    fn deref(&self) -> &PgTransaction {
        &self.transaction
    }
}

impl Drop for PgSavepoint {
    fn drop(&mut self) {
        if self.is_open {
            self.transaction.0.undo.lock().push_str(&self.undo());
        }
    }
}
