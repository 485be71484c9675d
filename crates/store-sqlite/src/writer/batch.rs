//! A batch: one transaction, one COMMIT, and the truth for each caller when something fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oncekey_store::{Clock, StoreError};
use rusqlite::Connection;

use crate::SqliteOptions;
use crate::connection::{self, Place, Purpose};
use crate::error::Failure;
use crate::guard::Guard;

use super::operation::{Job, Ran, Transaction};

/// The writer's connection, and what it runs batches with.
pub(super) struct Batches {
    place: Place,
    options: SqliteOptions,
    clock: Arc<dyn Clock>,
    guard: Guard,
    commits: Arc<AtomicU64>,
    /// How much of handlers' work is still run in a batch of its own, since one batch with more than one was lost.
    wary: usize,
    /// `None` after a failure that left the last one in doubt; opened again by the next batch.
    connection: Option<Connection>,
}

/// What became of a batch's transaction.
enum End {
    /// Committed, or there was nothing to commit.
    Committed,
    /// SQLite rolled it back, or an operation panicked: nothing of it is there.
    RolledBack,
    /// The same, by what isn't run again.
    TookDown,
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
        let guard = Guard::new(clock.clone());
        let mut batches = Self { place, options, clock, guard, commits, wary: 0, connection: None };
        batches.connect()?;
        Ok(batches)
    }

    fn connect(&mut self) -> Result<(), Failure> {
        let mut connection = connection::open(&self.place, &self.options, Purpose::Write)?;
        self.guard.watch(&mut connection)?;
        self.connection = Some(connection);
        Ok(())
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

    /// Runs a batch and answers every caller, but those whose work there was no time for: with them the next batch begins.
    pub(super) fn run(&mut self, mut jobs: Vec<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
        // What can't be run again comes last: by then, what can has succeeded.
        jobs.sort_by_key(|job| job.is_last());
        let left = self.run_together(jobs);
        self.checkpoint();
        left
    }

    fn run_together(&mut self, mut jobs: Vec<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
        if let Err(failure) = self.begin() {
            fail_all(jobs, failure.not_applied());
            return Vec::new();
        }
        let work = jobs.iter().filter(|job| job.is_last()).count();
        let (end, ran) = self.transact(&mut jobs);
        let left = jobs.split_off(ran);
        self.rest();
        if !matches!(end, End::Committed) {
            // What was lost with the batch is handed over again. Whose fault it was may be unknown, so each is run apart then.
            self.wary = self.wary.max(2 * work);
        }
        match end {
            End::Committed => jobs.into_iter().for_each(Job::committed),
            // It has been told; each time there is one less that can.
            End::TookDown => return self.run_together(jobs),
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
        left
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
            self.connect()?;
        }
        let Some(connection) = &self.connection else { return Err(Failure::Closed) };
        // Neither this nor COMMIT is kept compiled: a handler that asks for the same text would get it, past the guard.
        connection.execute_batch("BEGIN IMMEDIATE")?;
        Ok(())
    }

    /// Runs operations and commits them; how many of them, from the first on.
    fn transact(&mut self, jobs: &mut [Box<dyn Job>]) -> (End, usize) {
        let Some(connection) = &self.connection else { return (End::RolledBack, jobs.len()) };
        let mut transaction = Transaction::new(connection, &*self.clock, &self.guard);
        let until = self.clock.elapsed().saturating_add(self.options.work_timeout);
        let (mut ran, mut ran_last) = (0, false);
        for job in &mut *jobs {
            let is_last = job.is_last();
            if is_last && ran > 0 && (self.clock.elapsed() >= until || (ran_last && self.wary > 0)) {
                break;
            }
            if is_last {
                (ran_last, self.wary) = (true, self.wary.saturating_sub(1));
            }
            ran += 1;
            match catch_unwind(AssertUnwindSafe(|| job.run(&mut transaction))) {
                Ok(Ran::Answered | Ran::Waits) => {}
                Ok(Ran::RolledBack) | Err(_) => return (End::RolledBack, jobs.len()),
                Ok(Ran::TookDown) => return (End::TookDown, jobs.len()),
            }
        }
        if !transaction.changed() {
            // What was found stands without a commit, and so without waiting for the disk.
            return (End::Committed, ran);
        }
        let end = match connection.execute_batch("COMMIT") {
            Ok(()) => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                End::Committed
            }
            Err(error) => End::CommitFailed(error.into()),
        };
        (end, ran)
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
