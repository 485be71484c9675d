//! What is in a transaction's way when it begins: another's, a record, a store that fails.

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::Standing;
use oncekey_core::policy::Verdict;
use oncekey_engine::{Call, Engine, Settings};
use oncekey_store_test::{BeginFault, Gate};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Stage;
use crate::upstream::Run;
use crate::world::{said, say, settings, settle, spawn};

/// A transaction that is open on another node.
struct Elsewhere {
    stage: Stage,
    gate: Gate,
    running: JoinHandle<oncekey_engine::Ended<u32>>,
    here: Engine<u32>,
}

async fn elsewhere(run: Run) -> Elsewhere {
    let stage = Stage::new().await;
    let here = stage.world.node().await;
    let gate = stage.upstream.held(run);
    let running = spawn(&stage.engine, stage.call());
    gate.reached().await;
    Elsewhere { stage, gate, running, here }
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_anothers_open_transaction_waits_with_nothing_held_and_then_comes_back() {
    let Elsewhere { stage, gate, running, here } = elsewhere(Run::Answer(Verdict::Completed)).await;
    let began = Instant::now();
    let duplicates = (0..5).map(|_| spawn(&here, stage.call())).collect();
    settle().await;
    assert_eq!((stage.transactions.open(), stage.transactions.most_open()), (1, 1));
    assert_eq!(said(duplicates).await, ["in progress"; 5]);
    assert_eq!(began.elapsed().as_secs(), 1, "after `wait`");
    settle().await;
    gate.open();
    assert_eq!(said(vec![running]).await, ["first 1"]);
    assert_eq!(say(&here.run(stage.call()).await), "replay run 1");
    assert_eq!(stage.upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_gets_the_answer_once_it_is_committed_elsewhere_and_runs_once_it_is_rolled_back() {
    for (verdict, answers, rows) in [
        (Verdict::Completed, ["replay run 1", "replay run 1"], ["row 1"]),
        (Verdict::Failed, ["first 2", "waited run 2"], ["row 2"]),
    ] {
        let Elsewhere { stage, gate, running, here } = elsewhere(Run::Answer(verdict)).await;
        let duplicates: Vec<_> = (0..2).map(|_| spawn(&here, stage.call())).collect();
        settle().await;
        gate.open();
        assert_eq!(said(vec![running]).await, ["first 1"]);
        assert_eq!(said(duplicates).await, answers);
        assert_eq!(stage.rows(), rows);
    }
}

#[tokio::test(start_paused = true)]
async fn another_request_waits_until_it_is_known_whose_record_it_is() {
    let Elsewhere { stage, gate, running, here } = elsewhere(Run::Answer(Verdict::Completed)).await;
    let another = || Call { transactions: stage.call().transactions, ..stage.upstream.other_call("k") };
    assert_eq!(say(&stage.engine.run(another()).await), "mismatch", "this node knows it already");
    assert_eq!(say(&here.run(another()).await), "in progress");
    let waits = spawn(&here, another());
    settle().await;
    gate.open();
    assert_eq!(said(vec![running, waits]).await, ["first 1", "mismatch"]);
    assert_eq!(stage.upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn others_are_asked_for_only_while_somebody_waits() {
    let Elsewhere { stage, gate, running, here } = elsewhere(Run::Answer(Verdict::Completed)).await;
    let duplicate = spawn(&here, stage.call());
    settle().await;
    duplicate.abort();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(here.shutdown(Duration::from_secs(1)).await, 0, "nothing runs there any more");
    gate.open();
    assert_eq!(said(vec![running]).await, ["first 1"]);
    assert_eq!((stage.transactions.opened(), stage.upstream.runs()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_busy_record_takes_no_place_from_what_executes() {
    let Elsewhere { stage, gate, running, .. } = elsewhere(Run::Answer(Verdict::Completed)).await;
    let here = stage.world.node_with(Settings { max_inflight: 1, ..settings() }).await;
    let duplicate = spawn(&here, stage.call());
    settle().await;
    let other = here.run(stage.upstream.call_within("other", &stage.transactions)).await;
    assert_eq!(say(&other), "first 2");
    gate.open();
    assert_eq!(said(vec![running, duplicate]).await, ["first 1", "replay run 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_can_not_begin_executes_nothing() {
    for (fault, answer) in [(BeginFault::NotApplied, "store unavailable"), (BeginFault::Corrupt, "unreadable")] {
        let stage = Stage::new().await;
        stage.transactions.fail_begin(fault);
        let unguarded = stage.upstream.open_call("k", &Gate::default()).unguarded;
        let call = Call { unguarded, ..stage.call() };
        assert_eq!(say(&stage.engine.run(call).await), answer, "nor is it let through");
        assert_eq!(stage.upstream.runs(), 0);
        assert_eq!(stage.run().await, "first 1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_takes_long_to_begin_is_given_up_after_store_timeout() {
    let stage = Stage::new().await;
    let gate = Gate::default();
    stage.transactions.fail_begin(BeginFault::Held(gate.clone()));
    let asked = Instant::now();
    assert_eq!((stage.run().await, asked.elapsed().as_secs()), ("store unavailable".to_owned(), 5));
    gate.open();
    settle().await;
    assert_eq!((stage.transactions.open(), stage.upstream.runs()), (0, 0));
    assert_eq!(stage.run().await, "first 1");
}

/// Records that were claimed in two commits: the route was not in transactional mode before.
#[tokio::test(start_paused = true)]
async fn records_of_the_other_mode_are_judged_as_ever() {
    for (run, retry, attempts) in [
        (Run::Answer(Verdict::Completed), "replay run 1", vec![1]),
        (Run::Answer(Verdict::Failed), "first 2", vec![1, 2]),
        (Run::Refuse, "first 2", vec![1, 2]),
        (Run::Lose, "unknown", vec![1]),
    ] {
        let stage = Stage::new().await;
        stage.upstream.next(run);
        stage.engine.run(stage.upstream.call("k")).await;
        assert_eq!((&stage.run().await[..], stage.upstream.attempts()), (retry, attempts));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_record_is_left_as_it_was_when_its_next_attempt_is_rolled_back() {
    let stage = Stage::new().await;
    stage.upstream.next(Run::Answer(Verdict::Failed));
    stage.engine.run(stage.upstream.call("k")).await;
    for (run, answer) in [(Run::Answer(Verdict::Failed), "first 2"), (Run::Panic, "not executed")] {
        stage.upstream.next(run);
        assert_eq!(stage.run().await, answer);
        assert_eq!((stage.world.stands("k").await, stage.rows().len()), (Standing::Failed, 0));
    }
    assert_eq!((stage.run().await, stage.rows().len()), ("first 4".to_owned(), 1));
    assert_eq!(stage.upstream.attempts(), [1, 2, 2, 2], "what is rolled back isn't counted");
}

#[tokio::test(start_paused = true)]
async fn what_still_runs_in_the_other_mode_is_waited_for() {
    let stage = Stage::new().await;
    let here = stage.world.node().await;
    let gate = stage.upstream.held(Run::Answer(Verdict::Completed));
    let running = spawn(&stage.engine, stage.upstream.call("k"));
    gate.reached().await;
    let duplicate = spawn(&here, stage.call());
    settle().await;
    gate.open();
    assert_eq!(said(vec![running, duplicate]).await, ["first 1", "waited run 1"]);
}

#[tokio::test(start_paused = true)]
async fn only_what_is_recorded_counts_towards_the_quota_of_a_scope() {
    let stage = Stage::new().await;
    let engine = stage.world.node_with(Settings { max_records_per_scope: Some(2), ..settings() }).await;
    let run = async |key: &str| say(&engine.run(stage.upstream.call_within(key, &stage.transactions)).await);
    for key in ["a", "b", "c"] {
        stage.upstream.next(Run::Answer(Verdict::Failed));
        assert!(run(key).await.starts_with("first"));
    }
    assert_eq!((run("a").await, run("b").await), ("first 4".to_owned(), "first 5".to_owned()));
    assert_eq!(run("c").await, "quota exceeded");
    assert_eq!(Arc::strong_count(&stage.transactions), 1);
}
