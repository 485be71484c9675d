//! Batches from within: who is answered when, and what one operation's failure does to the others.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use oncekey_core::RecordId;
use oncekey_store::{Claimed, Closed, Ending, ManualClock, Recorded, StoreError};
use oncekey_store_test::{START, granted, held, samples, written};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::oneshot::{self, Receiver};

use super::batch::Batches;
use super::operation::{Job, Operation, Pending, Transaction};
use crate::claims::MakeClaim;
use crate::connection::Place;
use crate::error::Failure;
use crate::guard::Sql;
use crate::outcomes::RecordOutcome;
use crate::transactions::{Close, Settle};
use crate::{SqliteOptions, migrate};

type Answer<T> = Receiver<Result<T, StoreError>>;

fn batches(max_pages: Option<u32>) -> (TempDir, Batches) {
    let (directory, batches, _) = batches_and_clock(max_pages);
    (directory, batches)
}

fn batches_and_clock(max_pages: Option<u32>) -> (TempDir, Batches, Arc<ManualClock>) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = SqliteOptions::new(directory.path().join("records.db"));
    migrate(&options).expect("a new database");
    options.max_pages = max_pages;
    let place = Place::find(&options.path).expect("there");
    let clock = Arc::new(ManualClock::at(START));
    let batches = Batches::new(place, options, clock.clone(), Arc::new(AtomicU64::new(0))).expect("opened");
    (directory, batches, clock)
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

/// Work of a handler's, and what comes of it.
fn closing(key: &str, work: impl FnOnce(&Connection) -> Ending + Send + 'static) -> (Box<dyn Job>, Answer<Closed>) {
    let claim = samples::claim(&samples::identity("acc-1", key), samples::owner());
    let last = Box::new(|connection: &dyn Any| work(connection.downcast_ref().expect("a connection")));
    job(Close::new(claim, Ending::Last(last), Duration::from_secs(1)))
}

fn complete() -> Ending {
    Ending::Commit(samples::completed("done"))
}

/// What the guard is there for: without it, a COMMIT in the middle of a batch parts what belongs together, and leaves the rest of the
/// batch to commit one by one.
#[test]
fn without_the_guard_a_commit_would_part_the_batch() {
    for guarded in [true, false] {
        let (_directory, mut batches) = batches(None);
        let (work, mut answer) = job(Doing(move |transaction: &mut Transaction<'_>| {
            let guard = transaction.guard().clone();
            let sql = if guarded { Sql::Rows } else { Sql::Own };
            transaction.write(None, |connection| {
                let committed = guard.against(sql, Duration::from_secs(1), || connection.execute_batch("COMMIT"));
                assert_eq!(committed.is_err(), guarded, "{committed:?}");
                Ok(())
            })
        }));
        let (before, mut before_answer) = job(claim("before"));
        batches.run(vec![before, work]);
        granted(&before_answer.try_recv().expect("answered"));
        let worked = answer.try_recv().expect("answered");
        assert_eq!(worked.is_ok(), guarded, "{worked:?}");
    }
}

/// The same for a row after the transaction is gone: it would commit by itself, without a record.
#[test]
fn without_the_guard_a_row_would_commit_without_its_record() {
    for guarded in [true, false] {
        let (_directory, mut batches) = batches(None);
        let (tables, _) = job(Doing(|transaction: &mut Transaction<'_>| {
            transaction.write(None, |connection| Ok(connection.execute_batch("CREATE TABLE rows (id UNIQUE)")?))
        }));
        batches.run(vec![tables]);
        let (work, _answer) = job(Doing(move |transaction: &mut Transaction<'_>| {
            let sql = if guarded { Sql::Rows } else { Sql::Own };
            let connection = transaction.connection();
            transaction.guard().against(sql, Duration::from_secs(1), || {
                if !connection.is_autocommit() {
                    let _ = connection
                        .execute_batch("INSERT INTO rows VALUES (1); INSERT OR ROLLBACK INTO rows VALUES (1)");
                }
                let _ = connection.execute_batch("INSERT INTO rows VALUES (2)");
            });
            Err(Failure::Refused("as the test wants it"))
        }));
        batches.run(vec![work]);
        let (count, mut counted) = job(Doing(move |transaction: &mut Transaction<'_>| {
            let count = "SELECT count(*) FROM rows";
            let rows: i64 = transaction.connection().query_row(count, [], |row| row.get(0))?;
            assert_eq!(rows == 0, guarded, "{rows} rows");
            Ok(())
        }));
        batches.run(vec![count]);
        counted.try_recv().expect("answered").expect("counted");
    }
}

/// A disk that is full in the middle of the work: its rows and its record are gone, the others' are there.
#[test]
fn work_that_finds_the_disk_full_fails_alone() {
    let (_directory, mut batches) = batches(Some(60));
    let (tables, _) = job(Doing(|transaction: &mut Transaction<'_>| {
        transaction.write(None, |connection| Ok(connection.execute_batch("CREATE TABLE rows (id)")?))
    }));
    batches.run(vec![tables]);
    let (before, mut before_answer) = closing("before", |connection| {
        connection.execute("INSERT INTO rows VALUES (1)", []).expect("room");
        complete()
    });
    let (large, mut large_answer) = closing("large", |connection| {
        let full = connection.execute("INSERT INTO rows VALUES (zeroblob(1000000))", []).expect_err("no room");
        assert_eq!(full.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull));
        Ending::RollBack
    });
    let (heedless, mut heedless_answer) = closing("heedless", |connection| {
        connection.execute("INSERT INTO rows VALUES (zeroblob(1000000))", []).expect_err("no room");
        complete()
    });
    let (plain, mut plain_answer) = job(claim("plain"));
    let mut left = vec![before, large, heedless, plain];
    while !left.is_empty() {
        left = batches.run(left);
    }
    granted(&plain_answer.try_recv().expect("answered"));
    let before = before_answer.try_recv().expect("answered");
    assert!(matches!(before, Ok(Closed::Recorded { .. } | Closed::Again)), "{before:?}");
    let rolled_back = large_answer.try_recv().expect("answered");
    assert!(matches!(rolled_back, Ok(Closed::RolledBack)), "{rolled_back:?}");
    let heedless = heedless_answer.try_recv().expect("answered");
    let (count, mut counted) = job(Doing(move |transaction: &mut Transaction<'_>| {
        let counts = "SELECT (SELECT count(*) FROM rows), (SELECT count(*) FROM responses)";
        let (rows, records): (i64, i64) =
            transaction.connection().query_row(counts, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let kept = i64::from(matches!(before, Ok(Closed::Recorded { .. })));
        // Work that doesn't mind the error has its record, unless the error took everything down.
        let unminded = i64::from(matches!(heedless, Ok(Closed::Recorded { .. })));
        assert_eq!((rows, records), (kept, kept + unminded));
        Ok(())
    }));
    batches.run(vec![count]);
    counted.try_recv().expect("answered").expect("counted");
}

/// A batch takes on no more work once its time is up; what is left begins the next one, behind what came in meanwhile.
#[test]
fn a_batch_takes_on_no_more_work_than_there_is_time_for() {
    let (_directory, mut batches, clock) = batches_and_clock(None);
    let slow = move |_: &Connection| {
        clock.advance(Duration::from_secs(2));
        complete()
    };
    let (first, mut first_answer) = closing("first", slow);
    let (second, mut second_answer) = closing("second", |_| complete());
    let left = batches.run(vec![first, second]);
    assert!(matches!(first_answer.try_recv().expect("answered"), Ok(Closed::Recorded { .. })));
    assert!(second_answer.try_recv().is_err(), "not yet");
    assert_eq!(left.len(), 1);
    assert!(batches.run(left).is_empty());
    assert!(matches!(second_answer.try_recv().expect("answered"), Ok(Closed::Recorded { .. })));
}

/// What a commit that failed unclearly has come to is told by the record's token, after another commit has got through.
#[test]
fn an_unclear_commit_is_settled_by_the_token() {
    let (_directory, mut batches) = batches(None);
    let claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
    let other = samples::claim(&claim.identity, samples::owner());
    let settle = |claim: &oncekey_store::Claim, batches: &mut Batches| {
        let (settle, mut answer) = job(Settle::new(claim));
        batches.run(vec![settle]);
        answer.try_recv().expect("answered").expect("settled")
    };
    assert!(settle(&claim, &mut batches).is_none(), "nothing is there");
    let (close, _) = job(Close::new(claim.clone(), complete(), Duration::from_secs(1)));
    batches.run(vec![close]);
    assert!(matches!(settle(&claim, &mut batches), Some(Closed::Recorded { .. })));
    assert!(settle(&other, &mut batches).is_none(), "it is another's");
}
