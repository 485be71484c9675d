//! The application's own tables, in the same file as the records: making them, and reading them.

use oncekey_core::RecordId;
use oncekey_store::StoreError;
use rusqlite::Connection;
use std::time::Duration;

use crate::error::Failure;
use crate::guard::{Guard, Sql};
use crate::reader::Readers;
use crate::store::SqliteStore;
use crate::writer::{Operation, Transaction};

impl SqliteStore {
    /// Runs statements that make the application's tables, as one transaction: all of them or none. For its start, since
    /// all writing waits meanwhile; each should be one that may be repeated (`CREATE TABLE IF NOT EXISTS …`). The names `nodes`,
    /// `records` and `responses` are oncekey's own, and statements that begin or end a transaction, change a setting or attach a
    /// file are refused.
    ///
    /// `NotApplied` if a statement is wrong or was refused, with SQLite's own error as the source. Dropping the future doesn't stop
    /// it.
    pub async fn make_tables(&self, statements: impl Into<String> + Send) -> Result<(), StoreError> {
        self.writer.run(MakeTables(statements.into())).await
    }

    /// Reads the application's tables, as last committed, on a thread and a connection of its own that can't write. The
    /// outer error is the store's, the inner one that of `read`. A slow one holds up others of its kind, and
    /// nothing else. Runs to its end when the future is dropped.
    pub async fn query<T: Send + 'static, E: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<Result<T, E>, StoreError> {
        let queries =
            self.queries.get_or_try_init(|| async { self.start_queries().map_err(Failure::not_applied) }).await?;
        queries.run(move |connection| Ok(read(connection))).await
    }

    fn start_queries(&self) -> Result<Readers, Failure> {
        let guard = Guard::new(self.clock.clone());
        guard.always();
        Readers::start_guarded(&self.place, &self.options, "oncekey-query", 2, Some(&guard))
    }
}

struct MakeTables(String);

impl Operation for MakeTables {
    type Answer = ();

    fn about(&self) -> Option<RecordId> {
        None
    }

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        let guard = transaction.guard().clone();
        transaction.write(None, |connection| {
            Ok(guard.against(Sql::Tables, Duration::MAX, || connection.execute_batch(&self.0))?)
        })
    }
}
