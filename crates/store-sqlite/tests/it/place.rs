//! Databases in temporary directories.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use oncekey_store::{Clock, Closed, Ending, ManualClock, StoreError, Transaction};
use oncekey_store_sqlite::{SqliteOptions, SqliteStore, migrate};
use oncekey_store_test::{Fixture, Rows, START, TransactionFixture};
use parking_lot::Mutex;
use rusqlite::Connection;
use tempfile::TempDir;

/// A directory with a database, gone with the value.
pub(crate) struct Place(TempDir);

impl Place {
    /// A directory without a database yet.
    pub(crate) fn empty() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    /// One with an empty database of the present schema.
    pub(crate) fn migrated() -> Self {
        let place = Self::empty();
        migrate(&place.options()).expect("a new database");
        place
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("records.db")
    }

    pub(crate) fn options(&self) -> SqliteOptions {
        SqliteOptions::new(self.path())
    }

    pub(crate) fn open(&self, clock: Arc<dyn Clock>) -> SqliteStore {
        SqliteStore::open(self.options(), clock).expect("the database opens")
    }

    /// SQLite's own view of the database.
    pub(crate) fn raw(&self) -> Connection {
        Connection::open(self.path()).expect("a connection")
    }
}

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(START))
}

/// The same with their transactions, and a table for rows.
pub(crate) fn transaction_fixture() -> TransactionFixture {
    let (place, stores) = (Place::migrated(), Mutex::new(Vec::new()));
    place.raw().execute_batch("CREATE TABLE rows (row TEXT NOT NULL) STRICT").expect("a table");
    let rows = Arc::new(RowsOfWork(place.path()));
    let base = Fixture::shared(place, |place, clock| {
        let store = Arc::new(place.open(clock));
        stores.lock().push(store.clone());
        store
    });
    let [transactions, elsewhere] = stores.into_inner().try_into().expect("two stores");
    TransactionFixture { base, transactions, elsewhere, rows }
}

/// Rows that are written by work at the end.
struct RowsOfWork(PathBuf);

#[async_trait]
impl Rows for RowsOfWork {
    async fn write_and_end(
        &self,
        transaction: Box<dyn Transaction>,
        row: &str,
        ending: Ending,
    ) -> Result<Closed, StoreError> {
        let row = row.to_owned();
        let work = move |connection: &dyn Any| {
            let connection: &Connection = connection.downcast_ref().expect("SQLite's connection");
            connection.execute("INSERT INTO rows VALUES (?1)", [row]).expect("a row");
            ending
        };
        transaction.end(Ending::Last(Box::new(work))).await
    }

    async fn count(&self, row: &str) -> u64 {
        let connection = Connection::open(&self.0).expect("a connection");
        let count = "SELECT count(*) FROM rows WHERE row = ?1";
        let count: i64 = connection.query_row(count, [row], |row| row.get(0)).expect("a count");
        u64::try_from(count).expect("a count")
    }
}

/// Two stores on one database, as two processes would have them.
pub(crate) fn fixture() -> Fixture {
    Fixture::shared(Place::migrated(), |place, clock| Arc::new(place.open(clock)))
}
