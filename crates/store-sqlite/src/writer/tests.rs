//! Batches from within: who is answered when, and what one operation's failure does to the others.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use oncekey_core::RecordId;
use oncekey_store::{Claimed, ManualClock, Recorded, StoreError};
use oncekey_store_test::{START, granted, held, samples, written};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::oneshot::{self, Receiver};

use super::batch::Batches;
use super::operation::{Job, Operation, Pending, Transaction};
use crate::claims::MakeClaim;
use crate::connection::Place;
use crate::error::Failure;
use crate::outcomes::RecordOutcome;
use crate::{SqliteOptions, migrate};

type Answer<T> = Receiver<Result<T, StoreError>>;

fn batches(max_pages: Option<u32>) -> (TempDir, Batches) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = SqliteOptions::new(directory.path().join("records.db"));
    migrate(&options).expect("a new database");
    options.max_pages = max_pages;
    let place = Place::find(&options.path).expect("there");
    let clock = Arc::new(ManualClock::at(START));
    (directory, Batches::new(place, options, clock, Arc::new(AtomicU64::new(0))).expect("opened"))
}

fn job<O: Operation>(operation: O) -> (Box<dyn Job>, Answer<O::Answer>) {
    let (reply, answer) = oneshot::channel();
    (Box::new(Pending::new(operation, reply)), answer)
}

fn claim(key: &str) -> MakeClaim {
    MakeClaim::new(samples::claim(&samples::identity("acc-1", key), samples::owner()))
}

/// Does what its closure says, in the middle of a batch.
struct Doing<F>(F);

impl<F: Fn(&mut Transaction<'_>) -> Result<(), Failure> + Send + 'static> Operation for Doing<F> {
    type Answer = ();

    fn about(&self) -> Option<RecordId> {
        None
    }

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        (self.0)(transaction)
    }
}

/// Looks, before the COMMIT, whether an answer is there; tells after it.
fn is_answered(answer: Answer<Claimed>) -> (Box<dyn Job>, Receiver<bool>) {
    let (tell, told) = oneshot::channel();
    let once = parking_lot::Mutex::new(Some((answer, tell)));
    let (job, _) = job(Doing(move |_: &mut Transaction<'_>| {
        if let Some((mut answer, tell)) = once.lock().take() {
            let _ = tell.send(answer.try_recv().is_ok());
        }
        Ok(())
    }));
    (job, told)
}

#[test]
fn a_record_committed_before_is_reported_before_the_commit() {
    let (_directory, mut batches) = batches(None);
    let (first, mut answer) = job(claim("old"));
    batches.run(vec![first]);
    granted(&answer.try_recv().expect("answered"));
    let (new, _) = job(claim("new"));
    let (old, answer) = job(claim("old"));
    let (look, mut told) = is_answered(answer);
    batches.run(vec![new, old, look]);
    assert_eq!(told.try_recv(), Ok(true));
}

#[test]
fn a_record_of_the_same_batch_is_reported_after_the_commit() {
    let (_directory, mut batches) = batches(None);
    let (first, _) = job(claim("k"));
    let (second, answer) = job(claim("k"));
    let (look, mut told) = is_answered(answer);
    batches.run(vec![first, second, look]);
    assert_eq!(told.try_recv(), Ok(false));
    let (third, mut answer) = job(claim("k"));
    batches.run(vec![third]);
    held(answer.try_recv().expect("answered"));
}

#[test]
fn a_panic_fails_its_own_operation_only() {
    let (_directory, mut batches) = batches(None);
    let (before, mut before_answer) = job(claim("before"));
    let (poison, mut poison_answer) = job(Doing(|_: &mut Transaction<'_>| panic!("as the test wants it")));
    let (after, mut after_answer) = job(claim("after"));
    batches.run(vec![before, poison, after]);
    granted(&before_answer.try_recv().expect("answered"));
    granted(&after_answer.try_recv().expect("answered"));
    let poisoned = poison_answer.try_recv().expect("answered");
    assert!(matches!(poisoned, Err(StoreError::NotApplied(_))), "{poisoned:?}");
}

#[test]
fn a_failure_leaves_nothing_of_its_operation_and_all_of_the_others() {
    let (_directory, mut batches) = batches(None);
    let (before, mut before_answer) = job(claim("before"));
    let (failing, mut failing_answer) = job(Doing(|transaction: &mut Transaction<'_>| {
        transaction.write(None, |connection: &Connection| {
            connection.execute("INSERT INTO nodes VALUES (zeroblob(16), 1)", [])?;
            connection.execute("INSERT INTO nodes VALUES (zeroblob(15), 1)", [])?;
            Ok(())
        })
    }));
    batches.run(vec![before, failing]);
    granted(&before_answer.try_recv().expect("answered"));
    let failed = failing_answer.try_recv().expect("answered");
    assert!(matches!(failed, Err(StoreError::NotApplied(_))), "{failed:?}");
    let (count, mut counted) = job(Doing(|transaction: &mut Transaction<'_>| {
        let nodes: i64 = transaction.connection().query_row("SELECT count(*) FROM nodes", [], |row| row.get(0))?;
        assert_eq!(nodes, 0);
        Ok(())
    }));
    batches.run(vec![count]);
    counted.try_recv().expect("answered").expect("nothing is left of it");
}

fn outcome(claim: &MakeClaim, body: usize) -> RecordOutcome {
    let response = Some(samples::with_body(vec![1; body].into()));
    let outcome = oncekey_store::Outcome { event: oncekey_core::Event::Complete, response };
    RecordOutcome { id: claim.id(), token: claim.token(), outcome }
}

/// A full database: what fits is written, what doesn't is refused as not applied, and all goes on once there is room.
#[test]
fn a_full_database_refuses_what_does_not_fit() {
    let (_directory, mut batches) = batches(Some(40));
    let (first, second) = (claim("first"), claim("second"));
    let (large, small) = (outcome(&first, 1_000_000), outcome(&second, 10));
    let (first, _) = job(first);
    let (second, _) = job(second);
    batches.run(vec![first, second]);

    let (large, mut large_answer) = job(large);
    let (small, mut small_answer) = job(small);
    let (third, mut third_answer) = job(claim("third"));
    batches.run(vec![third, large, small]);
    let refused: Result<Recorded, _> = large_answer.try_recv().expect("answered");
    assert!(matches!(refused, Err(StoreError::NotApplied(_))), "{refused:?}");
    written(&small_answer.try_recv().expect("answered"));
    granted(&third_answer.try_recv().expect("answered"));

    let mut refused = None;
    for n in 0..2000 {
        let (job, mut answer) = job(claim(&format!("key-{n}")));
        batches.run(vec![job]);
        if let Err(error) = answer.try_recv().expect("answered") {
            refused = Some(error);
            break;
        }
    }
    assert!(matches!(refused, Some(StoreError::NotApplied(_))), "it fills up, and says so: {refused:?}");
    batches.lift_limit();
    let (job, mut answer) = job(claim("afterwards"));
    batches.run(vec![job]);
    granted(&answer.try_recv().expect("answered"));
}

#[test]
fn a_failed_commit_is_told_truthfully() {
    let failing =
        |code| Failure::Sqlite(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None)).of_commit();
    for code in [rusqlite::ffi::SQLITE_BUSY, rusqlite::ffi::SQLITE_FULL] {
        assert!(matches!(failing(code), StoreError::NotApplied(_)), "{code}");
    }
    for code in [rusqlite::ffi::SQLITE_IOERR_FSYNC, rusqlite::ffi::SQLITE_IOERR_WRITE, rusqlite::ffi::SQLITE_IOERR] {
        assert!(matches!(failing(code), StoreError::MayHaveBeenApplied(_)), "{code}");
    }
}
