//! A batch: one transaction, one COMMIT, and the truth for each caller when something fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oncekey_store::{Clock, StoreError};
use rusqlite::Connection;

use crate::SqliteOptions;
use crate::connection::{self, Place, Purpose};
use crate::error::Failure;

use super::operation::{Job, Ran, Transaction};

/// The writer's connection, and what it runs batches with.
pub(super) struct Batches {
    place: Place,
    options: SqliteOptions,
    clock: Arc<dyn Clock>,
    commits: Arc<AtomicU64>,
    /// `None` after a failure that left the last one in doubt; opened again by the next batch.
    connection: Option<Connection>,
}

/// What became of a batch's transaction.
enum End {
    /// Committed, or there was nothing to commit.
    Committed,
    /// SQLite rolled it back, or an operation panicked: nothing of it is there.
    RolledBack,
    /// The COMMIT failed.
    CommitFailed(Failure),
}

impl Batches {
    pub(super) fn new(
        place: Place,
        options: SqliteOptions,
        clock: Arc<dyn Clock>,
        commits: Arc<AtomicU64>,
    ) -> Result<Self, Failure> {
        let connection = Some(connection::open(&place, &options, Purpose::Write)?);
        Ok(Self { place, options, clock, commits, connection })
    }

    /// Gives up the connection; the next batch opens a new one.
    pub(super) fn reconnect(&mut self) {
        self.connection = None;
    }

    /// Makes room in a database that a test has filled.
    #[cfg(test)]
    pub(super) fn lift_limit(&mut self) {
        self.options.max_pages = None;
        self.reconnect();
    }

    /// Runs a batch and answers every caller.
    pub(super) fn run(&mut self, jobs: Vec<Box<dyn Job>>) {
        self.run_together(jobs);
        self.checkpoint();
    }

    fn run_together(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        if let Err(failure) = self.begin() {
            return fail_all(jobs, failure.not_applied());
        }
        let end = self.transact(&mut jobs);
        self.rest();
        match end {
            End::Committed => jobs.into_iter().for_each(Job::committed),
            End::RolledBack if jobs.len() == 1 => {
                for job in jobs {
                    job.failed(Failure::Panicked.not_applied());
                }
            }
            End::CommitFailed(failure) => match failure.of_commit() {
                // Too much for the disk together may be little enough one by one.
                StoreError::NotApplied(_) if jobs.len() > 1 => self.run_alone(jobs),
                error => fail_all(jobs, error),
            },
            End::RolledBack => self.run_alone(jobs),
        }
    }

    /// Runs each operation in a transaction of its own, so that none fails for another's fault.
    fn run_alone(&mut self, jobs: Vec<Box<dyn Job>>) {
        for job in jobs {
            self.run_together(vec![job]);
        }
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.place.verify()?;
        if self.connection.is_none() {
            self.connection = Some(connection::open(&self.place, &self.options, Purpose::Write)?);
        }
        let Some(connection) = &self.connection else { return Err(Failure::Closed) };
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(())
    }

    fn transact(&self, jobs: &mut [Box<dyn Job>]) -> End {
        let Some(connection) = &self.connection else { return End::RolledBack };
        let mut transaction = Transaction::new(connection, &*self.clock);
        for job in jobs {
            match catch_unwind(AssertUnwindSafe(|| job.run(&mut transaction))) {
                Ok(Ran::Answered | Ran::Waits) => {}
                Ok(Ran::RolledBack) | Err(_) => return End::RolledBack,
            }
        }
        if !transaction.changed() {
            // What was found stands without a commit, and so without waiting for the disk.
            return End::Committed;
        }
        match connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([])) {
            Ok(_) => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                End::Committed
            }
            Err(error) => End::CommitFailed(error.into()),
        }
    }

    /// Leaves no transaction open; a connection that can't do that is given up.
    fn rest(&mut self) {
        let is_resting = self.connection.as_ref().is_some_and(|connection| {
            connection.is_autocommit() || (connection.execute_batch("ROLLBACK").is_ok() && connection.is_autocommit())
        });
        if !is_resting {
            self.reconnect();
        }
    }

    /// Copies the write-ahead log into the database once it is long enough, after the callers were answered. Here and
    /// not on another thread: only between two batches can all of it be copied, so that it begins anew.
    fn checkpoint(&self) {
        let Some(connection) = &self.connection else { return };
        let pages = |mode| {
            let read = |row: &rusqlite::Row<'_>| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?);
            connection.prepare_cached(mode).and_then(|mut pragma| pragma.query_row([], read))
        };
        let is_due =
            pages("PRAGMA wal_checkpoint(NOOP)").is_ok_and(|left| left >= i64::from(self.options.checkpoint_pages));
        if is_due && let Err(error) = pages("PRAGMA wal_checkpoint(PASSIVE)") {
            tracing::warn!(%error, "the write-ahead log can't be copied into the database; it grows until it can");
        }
    }
}

/// Fails the operations for a common reason. Errors can't be copied, so the first caller gets the error itself, and the
/// others what it says.
fn fail_all(jobs: Vec<Box<dyn Job>>, error: StoreError) {
    let kind = match &error {
        StoreError::MayHaveBeenApplied(_) => StoreError::MayHaveBeenApplied,
        StoreError::Corrupt(_) => StoreError::Corrupt,
        StoreError::NotApplied(_) | StoreError::Misconfigured(_) => StoreError::NotApplied,
    };
    let text = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
    let mut error = Some(error);
    for job in jobs {
        job.failed(error.take().unwrap_or_else(|| kind(text.clone().into())));
    }
}
