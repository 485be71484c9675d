//! Servers that all tests share, and a database for each test.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use oncekey_store::{Clock, ManualClock, Store};
use oncekey_store_postgres::{PostgresOptions, PostgresStore, migrate};
use oncekey_store_test::{Fixture, START};
use oncekey_testkit::{PATIENCE, Pooler, PostgresServer, Release};
use tokio::runtime::Handle;
use tokio::task::{JoinSet, block_in_place};
use tokio_postgres::{Client, NoTls};

/// The oldest release.
pub(crate) static OLD: LazyLock<PostgresServer> =
    LazyLock::new(|| PostgresServer::start(Release::V15).expect("PostgreSQL 15 starts"));

/// The newest.
pub(crate) static NEW: LazyLock<PostgresServer> =
    LazyLock::new(|| PostgresServer::start(Release::V18).expect("PostgreSQL 18 starts"));

/// In front of the oldest.
pub(crate) static POOLER: LazyLock<Pooler> = LazyLock::new(|| Pooler::start(&OLD).expect("PgBouncer starts"));

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(START))
}

pub(crate) fn options(url: &str) -> PostgresOptions {
    PostgresOptions::from_url(url).expect("a URL")
}

/// The name of a new database with the present schema.
pub(crate) async fn migrated(server: &PostgresServer) -> String {
    let database = server.database().await.expect("a new database");
    migrate(&options(&server.url(&database))).await.expect("migrated");
    database
}

/// A store in it that goes by a clock that is turned by hand.
pub(crate) async fn open(url: &str, clock: Arc<dyn Clock>) -> PostgresStore {
    PostgresStore::open(options(url).with_clock(clock)).await.expect("the store opens")
}

/// A connection of the test's own, for looking behind the store and for standing in its way.
pub(crate) struct Raw {
    pub(crate) client: Client,
    _driver: JoinSet<()>,
}

impl Raw {
    pub(crate) async fn connect(database: &str) -> Self {
        Self::connect_to(&OLD.url(database)).await
    }

    pub(crate) async fn connect_to(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connects");
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.await) });
        Self { client, _driver: driver }
    }

    /// The number that a statement gives.
    pub(crate) async fn count(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.expect("a row").get(0)
    }

    /// Asks until the number is there.
    pub(crate) async fn until(&self, sql: &str, wanted: i64) {
        let asking = async {
            while self.count(sql).await != wanted {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.expect("it comes to that number");
    }
}

/// The suite makes its fixtures outside of any future, though on a runtime's thread.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    block_in_place(|| Handle::current().block_on(future))
}

/// A database that is dropped after its test: there are hundreds of them, of some megabytes each.
pub(crate) struct Dropped {
    server: &'static PostgresServer,
    pub(crate) name: String,
}

impl Dropped {
    pub(crate) fn new(server: &'static PostgresServer) -> Self {
        Self { server, name: wait(migrated(server)) }
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        // One that stays goes with its server.
        let _ = self.server.drop_database(&self.name);
    }
}

fn shared(server: &'static PostgresServer, url: impl Fn(&str) -> String) -> Fixture {
    Fixture::shared(Dropped::new(server), |place, clock| -> Arc<dyn Store> {
        Arc::new(wait(open(&url(&place.name), clock)))
    })
}

pub(crate) fn direct_15() -> Fixture {
    shared(&OLD, |database| OLD.url(database))
}

pub(crate) fn direct_18() -> Fixture {
    shared(&NEW, |database| NEW.url(database))
}

pub(crate) fn pooled() -> Fixture {
    shared(&OLD, |database| POOLER.url(database))
}
