//! The driver sqlx: its connections from the user's pool.

use std::sync::Arc;

use ::sqlx::{AssertSqlSafe, Executor, PgPool, Postgres, Row, Transaction};
use async_trait::async_trait;
use oncekey_core::Timestamp;
use oncekey_store::{Begun, Claim, StoreError, Transactions, fault};
use tokio::time::timeout;

use super::TransactionOptions;
use super::driver::{Connection, Pool, Times};
use super::ground::Ground;
use super::protocol::{Rows, Script, Value, WRITE};
use super::sqlx_handle::LentTransaction;
use super::trouble::Trouble;
use crate::store::PostgresStore;

/// Transactions on sqlx. Handlers get a [`SqlxTransaction`](crate::SqlxTransaction).
pub struct SqlxTransactions {
    ground: Arc<Ground>,
    pool: Connections,
}

impl SqlxTransactions {
    /// With the user's own pool.
    ///
    /// Fails as `Misconfigured` if the pool isn't on the store's database, doesn't see the same tables, or may not write them.
    pub async fn with_pool(
        store: &PostgresStore,
        pool: PgPool,
        options: TransactionOptions,
    ) -> Result<Self, StoreError> {
        let pool = Connections { pool, options: options.clone() };
        Ok(Self { ground: Ground::new(store, options, &pool).await?, pool })
    }
}

#[async_trait]
impl Transactions for SqlxTransactions {
    async fn begin(&self, claim: Claim) -> Result<Begun, StoreError> {
        self.ground.begin(&self.pool, claim).await
    }
}

/// The pool.
struct Connections {
    pool: PgPool,
    options: TransactionOptions,
}

impl Pool for Connections {
    type Connection = PooledTransaction;

    async fn begin(&self, script: &Script) -> Result<(PooledTransaction, Rows), Trouble> {
        let beginning = self.pool.begin_with(AssertSqlSafe(script.begin.clone()));
        let mut transaction = match timeout(self.options.wait, beginning).await {
            Ok(Ok(transaction)) => transaction,
            Ok(Err(::sqlx::Error::PoolTimedOut)) | Err(_) => {
                return Err(Trouble::NoConnection("none of the pool was free in time".to_owned()));
            }
            Ok(Err(error)) => return Err(error.into()),
        };
        let rows = ask(&mut transaction, script.open.clone()).await?;
        Ok((PooledTransaction { transaction: Some(transaction), is_lost: false }, rows))
    }

    async fn ask(&self, sql: String) -> Result<Rows, Trouble> {
        let mut connection = self.pool.acquire().await?;
        ask(&mut connection, sql).await
    }
}

/// All columns must be text.
async fn ask(connection: &mut ::sqlx::PgConnection, sql: String) -> Result<Rows, Trouble> {
    let rows = connection.fetch_all(::sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    rows.iter()
        .map(|row| (0..row.len()).map(|column| row.try_get(column)).collect())
        .collect::<Result<_, _>>()
        .map_err(Trouble::from)
}

/// A transaction of the pool. Dropping it has sqlx roll back before anybody else gets the connection.
pub(super) struct PooledTransaction {
    pub(super) transaction: Option<Transaction<'static, Postgres>>,
    /// Whether sqlx has rolled it back before its time: see `SqlxConnection::is_lost`.
    pub(super) is_lost: bool,
}

impl PooledTransaction {
    fn get(&mut self) -> Result<&mut Transaction<'static, Postgres>, Trouble> {
        if self.is_lost {
            return Err(Trouble::lost());
        }
        self.transaction.as_mut().ok_or(Trouble::Unexpected)
    }
}

impl Connection for PooledTransaction {
    type Lent = LentTransaction;

    fn lend(self) -> Arc<LentTransaction> {
        Arc::new(LentTransaction::new(self))
    }

    async fn run(&mut self, sql: &str) -> Result<(), Trouble> {
        self.get()?.execute(::sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await?;
        Ok(())
    }

    async fn commit(&mut self, before: &str, values: &[Value<'_>]) -> Result<Times, Trouble> {
        self.run(before).await?;
        let mut write = ::sqlx::query(WRITE).persistent(false);
        for value in values {
            write = match *value {
                Value::Bytes(bytes) => write.bind(bytes.map(<[u8]>::to_vec)),
                Value::Text(text) => write.bind(text.map(str::to_owned)),
                Value::Int(number) => write.bind(number),
                Value::Small(number) => write.bind(number),
                Value::Bool(yes) => write.bind(yes),
            };
        }
        let row = write.fetch_one(&mut **self.get()?).await?;
        let time = |column: usize| row.try_get(column).map(Timestamp::from_micros);
        let times = (time(0)?, time(1)?);
        // In a transaction that has failed, COMMIT would answer as if it had committed: then the statement above has failed.
        let ending = self.transaction.take().ok_or(Trouble::Unexpected)?.commit();
        let (committed, ()) = tokio::join!(ending, fault::point("commit_sent"));
        committed?;
        Ok(times)
    }

    async fn release(mut self) {
        // Its ROLLBACK, where one is due by sqlx's reckoning, is sent before the pool gives the connection to anybody else.
        drop(self.transaction.take());
    }
}
