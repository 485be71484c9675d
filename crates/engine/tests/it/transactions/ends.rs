//! Transactions that end otherwise than they were meant to.

use std::time::Duration;

use oncekey_core::Standing;
use oncekey_core::policy::Verdict;
use oncekey_store::Store;
use oncekey_store_test::{EndFault, Gate, samples};
use tokio::time::Instant;

use super::Stage;
use crate::upstream::Run;
use crate::world::{said, settle, spawn};

#[tokio::test(start_paused = true)]
async fn what_met_another_runs_again_and_commits_once() {
    for times in [1, 10] {
        let stage = Stage::new().await;
        (0..times).for_each(|_| stage.transactions.fail_end(EndFault::Again));
        assert_eq!(stage.run().await, format!("first {}", times + 1));
        assert_eq!(stage.rows(), [format!("row {}", times + 1)]);
        assert_eq!(stage.run().await, format!("replay run {}", times + 1));
    }
}

/// Its own error most likely is about what it met; any other answer would be untrue.
#[tokio::test(start_paused = true)]
async fn what_meets_others_too_often_gives_its_own_error_or_says_that_nothing_was_executed() {
    let cases =
        [(Verdict::Completed, "store unavailable"), (Verdict::Declined, "first 11"), (Verdict::Failed, "first 11")];
    for (verdict, answer) in cases {
        let stage = Stage::new().await;
        for _ in 0..11 {
            stage.transactions.fail_end(EndFault::Again);
            stage.upstream.next(Run::Answer(verdict));
        }
        assert_eq!(stage.run().await, answer);
        assert_eq!((stage.world.stands("k").await, stage.rows().len()), (Standing::Absent, 0));
        assert_eq!(stage.run().await, "first 12", "a retry runs");
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_failed_is_told_and_its_retry_runs() {
    for (fault, answer) in [(EndFault::NotApplied, "store unavailable"), (EndFault::RolledBack, "not executed")] {
        for verdict in [Verdict::Completed, Verdict::Declined] {
            let stage = Stage::new().await;
            stage.transactions.fail_end(fault.clone());
            stage.upstream.next(Run::Answer(verdict));
            assert_eq!(stage.run().await, answer);
            assert_eq!((stage.world.stands("k").await, stage.rows().len()), (Standing::Absent, 0));
            assert_eq!(stage.run().await, "first 2");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_nobody_can_tell_of_is_unknown_until_its_retry_finds_out() {
    for (fault, retry, rows) in
        [(EndFault::ReplyLost, "replay run 1", ["row 1"]), (EndFault::RequestLost, "first 2", ["row 2"])]
    {
        let stage = Stage::new().await;
        stage.transactions.fail_end(fault);
        assert_eq!(stage.run().await, "unknown for now");
        assert_eq!((&stage.run().await[..], stage.rows()), (retry, rows.map(str::to_owned).to_vec()));
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_takes_forever_is_unknown() {
    let stage = Stage::new().await;
    let gate = Gate::default();
    stage.transactions.fail_end(EndFault::Held(gate.clone()));
    let first = spawn(&stage.engine, stage.call());
    gate.reached().await;
    tokio::time::sleep(Duration::from_mins(9)).await;
    let waits = spawn(&stage.engine, oncekey_engine::Call { policy: super::patient().into(), ..stage.call() });
    assert_eq!(said(vec![first, waits]).await, ["in progress", "unknown for now"]);
}

/// A rollback has to achieve nothing but that nothing is committed.
#[tokio::test(start_paused = true)]
async fn a_rollback_that_failed_is_one() {
    for fault in [EndFault::NotApplied, EndFault::RolledBack] {
        let stage = Stage::new().await;
        stage.transactions.fail_end(fault);
        stage.upstream.next(Run::Answer(Verdict::Failed));
        assert_eq!((stage.run().await, stage.rows().len()), ("first 1".to_owned(), 0));
        assert_eq!(stage.run().await, "first 2");
    }
}

/// The store says so when a handler has committed by itself: its answer, which says that it failed, may be untrue then, and no
/// waiter's turn is next.
#[tokio::test(start_paused = true)]
async fn a_rollback_that_may_have_left_something_is_unknown() {
    for run in [Run::Answer(Verdict::Failed), Run::Lose, Run::Panic, Run::Refuse] {
        let stage = Stage::new().await;
        stage.transactions.fail_end(EndFault::RequestLost);
        let gate = stage.upstream.held(run);
        let first = spawn(&stage.engine, stage.call());
        gate.reached().await;
        let other = spawn(&stage.engine, stage.call());
        settle().await;
        gate.open();
        assert_eq!(said(vec![first, other]).await, ["unknown for now"; 2]);
        assert_eq!(stage.upstream.runs(), 1);
    }
}

/// Its retry may find it still open, for as long as the store needs.
#[tokio::test(start_paused = true)]
async fn a_rollback_that_takes_forever_is_waited_for_until_store_timeout() {
    let stage = Stage::new().await;
    stage.transactions.fail_end(EndFault::Held(Gate::default()));
    stage.upstream.next(Run::Answer(Verdict::Failed));
    let began = Instant::now();
    assert_eq!((stage.run().await, began.elapsed().as_secs()), ("first 1".to_owned(), 5));
}

/// It was claimed in two commits, past this transaction's claim.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_meets_anothers_record_answers_from_that() {
    let stage = Stage::new().await;
    let gate = stage.upstream.held(Run::Answer(Verdict::Completed));
    let first = spawn(&stage.engine, stage.call());
    gate.reached().await;
    let mut claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
    claim.fingerprint = crate::upstream::fingerprint(1);
    stage.world.store.claim(claim.clone()).await.expect("granted");
    stage.world.store.record(claim.identity.id(), claim.token, samples::completed("theirs")).await.expect("recorded");
    gate.open();
    assert_eq!(said(vec![first]).await, ["replay theirs"]);
    assert_eq!((stage.rows().len(), stage.upstream.runs()), (0, 1));
    settle().await;
}
