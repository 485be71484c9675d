//! One operation of a batch: what it may do, and when its caller may be told.

use std::collections::HashSet;

use oncekey_core::{RecordId, RecordedResponse, Timestamp};
use oncekey_store::{Clock, StoreError};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::Failure;
use crate::guard::Guard;
use crate::row::{self, Stored, columns};

/// A write, or a read that decides about one. It may run more than once: what it did before was rolled back then.
pub(crate) trait Operation: Send + 'static {
    /// What its caller gets.
    type Answer: Send + 'static;

    /// The record it is about, if it is about one only.
    fn about(&self) -> Option<RecordId>;

    /// The bytes of bodies that it writes.
    fn size(&self) -> usize {
        0
    }

    /// Whether it can't be run twice, and so comes last in a batch.
    fn is_last(&self) -> bool {
        false
    }

    /// Does it, in the batch's transaction. On an error the caller is told so, and nothing of it remains.
    fn run(&self, transaction: &mut Transaction<'_>) -> Result<Self::Answer, Failure>;
}

/// The transaction of a batch, as an operation sees it.
pub(crate) struct Transaction<'a> {
    connection: &'a Connection,
    clock: &'a dyn Clock,
    guard: &'a Guard,
    /// The records that the batch has written.
    written: HashSet<RecordId>,
    /// Whether it has written anything, and whether something that isn't in `written`.
    changed: bool,
    changed_others: bool,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(connection: &'a Connection, clock: &'a dyn Clock, guard: &'a Guard) -> Self {
        Self { connection, clock, guard, written: HashSet::new(), changed: false, changed_others: false }
    }

    /// The store's time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What SQL that isn't ours has to be run under.
    pub(crate) fn guard(&self) -> &'a Guard {
        self.guard
    }

    /// For reading.
    pub(crate) fn connection(&self) -> &'a Connection {
        self.connection
    }

    /// The record under `id`, without its response.
    pub(crate) fn find(&self, id: RecordId) -> Result<Option<Stored>, Failure> {
        const FIND: &str =
            concat!("SELECT ", columns!(), " FROM records LEFT JOIN nodes USING (owner) WHERE records.id = ?1");
        let mut statement = self.connection.prepare_cached(FIND)?;
        let mut rows = statement.query([id.as_bytes()])?;
        rows.next()?.map(row::decode).transpose()
    }

    /// The response of a record, unless there is none or its body is large.
    pub(crate) fn small_response(&self, stored: &Stored) -> Result<Option<RecordedResponse>, Failure> {
        if stored.record.response_status.is_none() {
            return Ok(None);
        }
        let small = "SELECT head, body FROM responses WHERE seq = ?1 AND ifnull(length(body), 0) <= 16384";
        let mut statement = self.connection.prepare_cached(small)?;
        let mut rows = statement.query([stored.seq])?;
        match rows.next()? {
            Some(row) => row::decode_response(row, 0, &stored.record),
            None => Ok(None),
        }
    }

    /// Writes: all of `write` or nothing of it. `about` as in [`Operation::about`].
    ///
    /// A failure takes the whole transaction back, and its operations then run alone. A savepoint for each operation would
    /// confine it to its own, but costs a copy of each page that is written: a fifth of the writer's time, every time.
    pub(crate) fn write<T>(
        &mut self,
        about: Option<RecordId>,
        write: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let value = match write(self.connection) {
            Ok(value) => value,
            Err(failure) => {
                // After some errors SQLite has already done so.
                if !self.connection.is_autocommit() {
                    self.connection.execute_batch("ROLLBACK")?;
                }
                return Err(failure);
            }
        };
        self.note_change(about);
        Ok(value)
    }

    /// The same in a savepoint of its own, which is rolled back by a failure, and by `None`, for nothing to keep: the others' work
    /// isn't touched. If `write` has taken the batch's transaction down, no transaction is open afterwards.
    pub(crate) fn write_apart<T>(
        &mut self,
        about: RecordId,
        write: impl FnOnce(&Connection, &Guard) -> Result<Option<T>, Failure>,
    ) -> Result<Option<T>, Failure> {
        self.connection.execute_batch("SAVEPOINT oncekey")?;
        let written = write(self.connection, self.guard);
        let end = match &written {
            Ok(Some(_)) => "RELEASE oncekey",
            Ok(None) | Err(_) => "ROLLBACK TO oncekey; RELEASE oncekey",
        };
        if let Err(error) = self.connection.execute_batch(end) {
            // The savepoint isn't there: what is open, if anything is, isn't the batch's transaction any more.
            if !self.connection.is_autocommit() {
                self.connection.execute_batch("ROLLBACK")?;
            }
            return written.and(Err(error.into()));
        }
        if matches!(written, Ok(Some(_))) {
            self.note_change(Some(about));
        }
        written
    }

    /// Whether no transaction is open any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.connection.is_autocommit()
    }

    fn note_change(&mut self, about: Option<RecordId>) {
        self.changed = true;
        match about {
            Some(id) => _ = self.written.insert(id),
            None => self.changed_others = true,
        }
    }

    pub(super) fn changed(&self) -> bool {
        self.changed
    }

    /// Whether what was found under `id` was committed before this batch.
    fn is_settled(&self, id: RecordId) -> bool {
        !self.changed_others && !self.written.contains(&id)
    }
}

/// How an operation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    /// Its caller was answered: it failed alone, or it only read what had been committed before.
    Answered,
    /// Its caller is to be answered after the COMMIT.
    Waits,
    /// SQLite has rolled back the transaction.
    RolledBack,
    /// The same, by what can't be run again and isn't: what is left of the batch may run together.
    TookDown,
}

/// An operation in the queue, whatever its answer is.
pub(super) trait Job: Send {
    /// See [`Operation::size`].
    fn size(&self) -> usize;
    /// See [`Operation::is_last`].
    fn is_last(&self) -> bool;
    /// Runs it and keeps the answer, or answers.
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Ran;
    /// Answers after a COMMIT, if that is still to be done.
    fn committed(self: Box<Self>);
    /// Answers with an error, if it wasn't answered.
    fn failed(self: Box<Self>, error: StoreError);
}

/// An operation whose caller waits.
pub(super) struct Pending<O: Operation> {
    operation: O,
    result: Option<Result<O::Answer, Failure>>,
    reply: Option<oneshot::Sender<Result<O::Answer, StoreError>>>,
}

impl<O: Operation> Pending<O> {
    pub(super) fn new(operation: O, reply: oneshot::Sender<Result<O::Answer, StoreError>>) -> Self {
        Self { operation, result: None, reply: Some(reply) }
    }

    fn answer(&mut self, answer: Result<O::Answer, StoreError>) {
        if let Some(reply) = self.reply.take() {
            // A caller that has gone doesn't want to know.
            let _ = reply.send(answer);
        }
    }
}

impl<O: Operation> Job for Pending<O> {
    fn size(&self) -> usize {
        self.operation.size()
    }

    fn is_last(&self) -> bool {
        self.operation.is_last()
    }

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Ran {
        if self.reply.is_none() {
            // The batch was lost after this had been answered, from what was committed before. Nobody would know of what it did now.
            return Ran::Answered;
        }
        let is_last = self.operation.is_last();
        let result = self.operation.run(transaction);
        if transaction.is_gone() {
            self.result = Some(result);
            return if is_last { Ran::TookDown } else { Ran::RolledBack };
        }
        match result {
            Err(failure) => self.answer(Err(failure.not_applied())),
            Ok(answer) if self.operation.about().is_some_and(|id| transaction.is_settled(id)) => {
                self.answer(Ok(answer));
            }
            Ok(answer) => {
                self.result = Some(Ok(answer));
                return Ran::Waits;
            }
        }
        Ran::Answered
    }

    fn committed(mut self: Box<Self>) {
        if let Some(result) = self.result.take() {
            self.answer(result.map_err(Failure::not_applied));
        }
    }

    fn failed(mut self: Box<Self>, error: StoreError) {
        // Its own failure says more than that the transaction is gone.
        let error = match self.result.take() {
            Some(Err(failure)) => failure.not_applied(),
            _ => error,
        };
        self.answer(Err(error));
    }
}
