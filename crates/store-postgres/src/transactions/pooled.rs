//! The driver tokio-postgres: its connections from a pool of deadpool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use deadpool_postgres::{Manager, ManagerConfig, Object, RecyclingMethod};
use oncekey_core::Timestamp;
use oncekey_store::{Begun, Claim, StoreError, Transactions, fault};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, SimpleQueryMessage, Statement};

use super::TransactionOptions;
use super::driver::{Connection, Pool, Times};
use super::ground::Ground;
use super::handle::LentClient;
use super::protocol::{Rows, Script, Value, WRITE, WRITE_TYPES};
use super::trouble::Trouble;
use crate::error::Failure;
use crate::session::Param;
use crate::store::PostgresStore;
use crate::{direct, tls};

/// Makes a connection what it was when it was new: a handler may have changed its settings for good. As deadpool's
/// `RecyclingMethod::Clean`, but without a round trip of its own.
const RENEW: &str = "\
    CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); \
    DISCARD TEMP; DISCARD SEQUENCES";

/// Transactions on tokio-postgres. Handlers get a [`PgTransaction`](crate::PgTransaction).
pub struct PgTransactions {
    ground: Arc<Ground>,
    pool: Clients,
}

impl PgTransactions {
    /// With a pool of its own, of at most `size` connections to where the store is. A connection comes to each handler with the
    /// settings of a new one.
    ///
    /// Fails as `NotApplied` if the server can't be reached.
    pub async fn open(store: &PostgresStore, size: usize, options: TransactionOptions) -> Result<Self, StoreError> {
        Self::over(store, Clients::own(store, size, options.clone())?, options).await
    }

    /// With the user's own pool. Its connections are used as they come: what a handler sets for its session stays, unless the
    /// pool's recycling method undoes it.
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
        let ground = Ground::new(store, options, &pool).await?;
        let direct = timeout(ground.patience(), pool.is_direct()).await.unwrap_or(Err(Trouble::TookTooLong));
        pool.prepares.store(direct.map_err(Trouble::not_applied)?, Ordering::Relaxed);
        Ok(Self { ground, pool })
    }
}

#[async_trait]
impl Transactions for PgTransactions {
    async fn begin(&self, claim: Claim) -> Result<Begun, StoreError> {
        self.ground.begin(&self.pool, claim).await
    }
}

/// The pool.
pub(super) struct Clients {
    pool: deadpool_postgres::Pool,
    /// Whether nobody else uses it.
    own: bool,
    options: TransactionOptions,
    /// Whether [`WRITE`] is prepared, once for each connection: planning it costs the server more than all else that is done for a
    /// transaction. Behind a pooler it isn't (see `direct`), nor once a prepared one turned out not to be there.
    prepares: Arc<AtomicBool>,
}

impl Clients {
    /// Whether its connections are the server's own.
    async fn is_direct(&self) -> Result<bool, Trouble> {
        let client = self.get().await?;
        let said = direct::process(client.get()?).await;
        let rows = client.ask("SELECT pg_backend_pid()::text").await?;
        client.release().await;
        let pid = rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
        Ok(said.is_some() && said == pid)
    }

    /// A pool of at most `size` connections to where the store is.
    pub(super) fn own(store: &PostgresStore, size: usize, options: TransactionOptions) -> Result<Self, StoreError> {
        let server = store.server().options();
        let tls = tls::connector(&server.verify).map_err(Failure::while_opening)?;
        let fast = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = deadpool_postgres::Pool::builder(Manager::from_config(server.config.clone(), tls, fast))
            .max_size(size.max(1))
            .build()
            .map_err(|error| StoreError::Misconfigured(error.into()))?;
        Ok(Self { pool, own: true, options, prepares: Arc::default() })
    }

    /// The user's.
    pub(super) fn users(pool: deadpool_postgres::Pool, options: TransactionOptions) -> Self {
        Self { pool, own: false, options, prepares: Arc::default() }
    }

    /// Gives a connection of a pool of ours the settings of a new one.
    async fn renew(&self, client: &PooledClient) -> Result<(), Trouble> {
        if self.own { Ok(client.get()?.batch_execute(RENEW).await?) } else { Ok(()) }
    }

    /// A connection with this sent on it first.
    pub(super) async fn opened(&self, opening: &str) -> Result<(PooledClient, Rows), Trouble> {
        let client = self.get().await?;
        let (renewed, opened) = tokio::join!(self.renew(&client), client.ask(opening));
        renewed?;
        let rows = opened?;
        Ok((client, rows))
    }

    /// The rows of a statement by itself.
    pub(super) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Trouble> {
        let client = self.get().await?;
        let (renewed, rows) = tokio::join!(self.renew(&client), async {
            Ok::<_, Trouble>(client.get()?.query_typed(sql, params).await?)
        });
        renewed?;
        if !matches!(rows, Err(Trouble::Broken(_))) {
            client.release().await;
        }
        rows
    }

    async fn get(&self) -> Result<PooledClient, Trouble> {
        match timeout(self.options.wait, self.pool.get()).await {
            Ok(Ok(object)) => {
                Ok(PooledClient { object: Some(object), write: None, prepares: Arc::clone(&self.prepares) })
            }
            Ok(Err(error)) => Err(Trouble::NoConnection(error.to_string())),
            Err(_) => Err(Trouble::NoConnection("none of the pool was free in time".to_owned())),
        }
    }
}

impl Pool for Clients {
    type Connection = PooledClient;

    async fn begin(&self, script: &Script) -> Result<(PooledClient, Rows), Trouble> {
        let mut client = self.get().await?;
        let opening = format!("{}; {}", script.begin, script.open);
        // All are sent before any is answered; a statement that is there already is not prepared again.
        let (renewed, opened, prepared) = tokio::join!(self.renew(&client), client.ask(&opening), client.prepare());
        renewed?;
        let rows = opened?;
        client.write = prepared?;
        Ok((client, rows))
    }

    async fn ask(&self, sql: String) -> Result<Rows, Trouble> {
        let client = self.get().await?;
        let rows = client.ask(&sql).await?;
        client.release().await;
        Ok(rows)
    }
}

/// A connection of the pool. Dropping it closes it instead of giving it back.
pub(super) struct PooledClient {
    object: Option<Object>,
    /// [`WRITE`], prepared on it.
    write: Option<Statement>,
    prepares: Arc<AtomicBool>,
}

impl PooledClient {
    pub(super) fn get(&self) -> Result<&Object, Trouble> {
        self.object.as_ref().ok_or(Trouble::Unexpected)
    }

    /// One that can't be prepared counts as broken: the next begins without.
    async fn prepare(&self) -> Result<Option<Statement>, Trouble> {
        if !self.prepares.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let prepared = self.get()?.prepare_typed_cached(WRITE, &WRITE_TYPES).await;
        prepared.map(Some).map_err(|error| {
            self.prepares.store(false, Ordering::Relaxed);
            Trouble::Broken(error.to_string())
        })
    }

    async fn write(&self, params: &[Param<'_>]) -> Result<Vec<Row>, Trouble> {
        let client = self.get()?;
        let Some(statement) = &self.write else { return Ok(client.query_typed(WRITE, params).await?) };
        let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
        let written = client.query(statement, &values).await.map_err(Trouble::from);
        if written.as_ref().is_err_and(Trouble::lacks_statement) {
            self.prepares.store(false, Ordering::Relaxed);
        }
        written
    }

    async fn ask(&self, sql: &str) -> Result<Rows, Trouble> {
        let messages = self.get()?.simple_query(sql).await?;
        let row = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
            }
            _ => None,
        };
        Ok(messages.iter().filter_map(row).collect())
    }
}

impl Drop for PooledClient {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}

impl Connection for PooledClient {
    type Lent = LentClient;

    fn lend(self) -> Arc<LentClient> {
        Arc::new(LentClient::new(self))
    }

    async fn run(&mut self, sql: &str) -> Result<(), Trouble> {
        Ok(self.get()?.batch_execute(sql).await?)
    }

    async fn commit(&mut self, before: &str, values: &[Value<'_>]) -> Result<Times, Trouble> {
        let client = self.get()?;
        let params: Vec<_> = values.iter().map(Value::param).collect();
        // All are sent before any is answered: nobody holds the record's row while a message is on its way. Where one fails,
        // those after it do nothing, and the COMMIT rolls back.
        let (before, written, committed, ()) = tokio::join!(
            client.batch_execute(before),
            self.write(&params),
            client.batch_execute("COMMIT"),
            fault::point("commit_sent"),
        );
        before?;
        let rows = written?;
        committed?;
        let row = rows.first().ok_or(Trouble::Unexpected)?;
        let time = |column| row.try_get(column).map(Timestamp::from_micros);
        Ok((time(0)?, time(1)?))
    }

    async fn release(mut self) {
        drop(self.object.take());
    }
}
