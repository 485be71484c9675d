//! Transactions in which a handler's rows and its record commit together, on both drivers, on the oldest and the newest release,
//! and through PgBouncer.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, Pool};
use http::Extensions;
use oncekey_core::State;
use oncekey_store::{Begun, Claim, Closed, Ending, Store, StoreError, Transaction, TransactionHandle, Transactions};
use oncekey_store_postgres::{
    PgTransaction, PgTransactionError, PgTransactions, PostgresStore, SqlxTransaction, SqlxTransactions,
    TransactionOptions,
};
use oncekey_store_test::samples;
use oncekey_testkit::PostgresServer;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor};
use tokio_postgres::NoTls;

use crate::place::{NEW, OLD, POOLER, Raw, clock, migrated, open};

#[path = "transactions/cuts.rs"]
mod cuts;
#[path = "transactions/drivers.rs"]
mod drivers;
#[path = "transactions/endings.rs"]
mod endings;
#[path = "transactions/meetings.rs"]
mod meetings;
#[path = "transactions/misuse.rs"]
mod misuse;
#[path = "transactions/pools.rs"]
mod pools;
#[path = "transactions/suite.rs"]
mod suite;

/// Who speaks to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driver {
    TokioPostgres,
    Sqlx,
}

/// Where the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Old,
    New,
    Pooled,
}

impl Where {
    fn server(self) -> &'static PostgresServer {
        match self {
            Self::Old | Self::Pooled => &OLD,
            Self::New => &NEW,
        }
    }

    fn url(self, database: &str) -> String {
        match self {
            Self::Old => OLD.url(database),
            Self::New => NEW.url(database),
            Self::Pooled => POOLER.url(database),
        }
    }
}

/// Runs each case with each driver in each place.
macro_rules! everywhere {
    ($($case:ident)+) => {
        $(mod $case {
            use crate::transactions::{Driver, Where, everywhere};

            everywhere!(@ $case, tokio_postgres_15, Driver::TokioPostgres, Where::Old);
            everywhere!(@ $case, tokio_postgres_18, Driver::TokioPostgres, Where::New);
            everywhere!(@ $case, tokio_postgres_pooled, Driver::TokioPostgres, Where::Pooled);
            everywhere!(@ $case, sqlx_15, Driver::Sqlx, Where::Old);
            everywhere!(@ $case, sqlx_18, Driver::Sqlx, Where::New);
            everywhere!(@ $case, sqlx_pooled, Driver::Sqlx, Where::Pooled);
        })+
    };
    (@ $case:ident, $name:ident, $driver:expr, $place:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            super::$case($driver, $place).await;
        }
    };
}
use everywhere;

/// A database with a table of business rows, a store in it, and transactions beside it.
struct Stage {
    driver: Driver,
    url: String,
    store: Arc<PostgresStore>,
    transactions: Arc<dyn Transactions>,
    raw: Raw,
}

impl Stage {
    async fn new(driver: Driver, place: Where) -> Self {
        Self::with(driver, place, 5, TransactionOptions::default()).await
    }

    async fn with(driver: Driver, place: Where, size: u32, options: TransactionOptions) -> Self {
        let database = migrated(place.server()).await;
        Self::at(driver, &place.url(&database), &place.server().url(&database), size, options).await
    }

    /// The transactions go by the first URL, the test's own connection by the second.
    async fn at(driver: Driver, url: &str, direct: &str, size: u32, options: TransactionOptions) -> Self {
        let raw = Raw::connect_to(direct).await;
        raw.client
            .batch_execute("CREATE TABLE ledger (key TEXT NOT NULL, amount INT NOT NULL DEFAULT 1)")
            .await
            .expect("a table");
        let store = Arc::new(open(direct, clock()).await);
        let transactions = transactions(driver, &store, url, size, options).await.expect("transactions");
        Self { driver, url: url.to_owned(), store, transactions, raw }
    }

    async fn open(&self, claim: &Claim) -> (u32, Running) {
        match self.transactions.begin(claim.clone()).await {
            Ok(Begun::Open { attempt, transaction }) => (attempt, Running::new(self.driver, transaction)),
            other => panic!("it opens, not {}", told(&other)),
        }
    }

    /// Begins as soon as nobody else's transaction is in the way.
    async fn open_soon(&self, claim: &Claim) -> Running {
        loop {
            match self.transactions.begin(claim.clone()).await {
                Ok(Begun::Open { transaction, .. }) => return Running::new(self.driver, transaction),
                Ok(Begun::Busy) => tokio::time::sleep(Duration::from_millis(20)).await,
                other => panic!("it opens, not {}", told(&other)),
            }
        }
    }

    async fn state(&self, claim: &Claim) -> Option<State> {
        let found = self.store.read(claim.identity.id()).await.expect("a reading")?;
        Some(found.record.state)
    }

    /// The invariant: a record that is completed by a 201 has its row, and no other has one.
    async fn torn(&self) -> i64 {
        self.raw
            .count(
                "SELECT count(*) FROM (SELECT key, count(*) FROM ledger GROUP BY key) AS l (key, rows) \
                 FULL JOIN (SELECT idempotency_key AS key FROM idempotency_keys WHERE status = 'completed') AS k USING (key) \
                 WHERE k.key IS NULL OR coalesce(l.rows, 0) <> 1",
            )
            .await
    }

    async fn rows(&self) -> i64 {
        self.raw.count("SELECT count(*) FROM ledger").await
    }
}

async fn transactions(
    driver: Driver,
    store: &PostgresStore,
    url: &str,
    size: u32,
    options: TransactionOptions,
) -> Result<Arc<dyn Transactions>, StoreError> {
    Ok(match driver {
        Driver::TokioPostgres => {
            let manager = Manager::new(url.parse().expect("a URL"), NoTls);
            let pool = Pool::builder(manager).max_size(size as usize).build().expect("a pool");
            Arc::new(PgTransactions::with_pool(store, pool, options).await?)
        }
        Driver::Sqlx => {
            // What PgBouncer in transaction mode needs.
            let connect: PgConnectOptions = url.parse().expect("a URL");
            let connect = connect.statement_cache_capacity(0).extra_float_digits(None);
            let pool = PgPoolOptions::new().max_connections(size).connect_lazy_with(connect);
            Arc::new(SqlxTransactions::with_pool(store, pool, options).await?)
        }
    })
}

/// A transaction, and its handler's view of it.
struct Running {
    transaction: Box<dyn Transaction>,
    handle: Handle,
}

enum Handle {
    TokioPostgres(PgTransaction),
    Sqlx(SqlxTransaction),
}

impl Running {
    fn new(driver: Driver, transaction: Box<dyn Transaction>) -> Self {
        let extensions = extensions(&*transaction);
        let handle = match driver {
            Driver::TokioPostgres => Handle::TokioPostgres(PgTransaction::of(&extensions).expect("a transaction")),
            Driver::Sqlx => Handle::Sqlx(SqlxTransaction::of(&extensions).expect("a transaction")),
        };
        Self { transaction, handle }
    }

    async fn pay(&mut self, key: &str) {
        self.handle.run(&format!("INSERT INTO ledger (key) VALUES ('{key}')")).await.expect("a row");
    }

    /// As after a handler that answered: it has let go.
    async fn end(self, ending: Ending) -> Result<Closed, StoreError> {
        drop(self.handle);
        self.transaction.end(ending).await
    }

    async fn commit(self) -> Result<Closed, StoreError> {
        self.end(Ending::Commit(samples::completed("done"))).await
    }
}

impl Handle {
    /// The error is the SQLSTATE, or what it says.
    async fn run(&mut self, sql: &str) -> Result<(), String> {
        match self {
            Self::TokioPostgres(transaction) => transaction.batch_execute(sql).await.map_err(|error| match &error {
                PgTransactionError::Postgres(cause) => {
                    cause.code().map_or_else(|| cause.to_string(), |code| code.code().to_owned())
                }
                ended @ PgTransactionError::Ended => ended.to_string(),
            }),
            Self::Sqlx(transaction) => {
                let ran = transaction.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await;
                ran.map(drop).map_err(|error| {
                    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
                    code.map_or_else(|| error.to_string(), std::borrow::Cow::into_owned)
                })
            }
        }
    }
}

fn extensions(transaction: &dyn Transaction) -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(TransactionHandle(transaction.handle()));
    extensions
}

fn claim(key: &str) -> Claim {
    samples::claim(&samples::identity("acc-1", key), samples::owner())
}

fn told(begun: &Result<Begun, StoreError>) -> String {
    match begun {
        Ok(Begun::Open { attempt, .. }) => format!("open, attempt {attempt}"),
        Ok(Begun::Held(found)) => format!("held by {found:?}"),
        Ok(Begun::Busy) => "busy".to_owned(),
        Err(error) => format!("{error:?}"),
    }
}
