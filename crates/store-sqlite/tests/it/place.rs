//! Databases in temporary directories.

use std::path::PathBuf;
use std::sync::Arc;

use oncekey_store::{Clock, ManualClock};
use oncekey_store_sqlite::{SqliteOptions, SqliteStore, migrate};
use oncekey_store_test::{Fixture, START};
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
    pub(crate) fn raw(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).expect("a connection")
    }
}

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(START))
}

/// Two stores on one database, as two processes would have them.
pub(crate) fn fixture() -> Fixture {
    Fixture::shared(Place::migrated(), |place, clock| Arc::new(place.open(clock)))
}
