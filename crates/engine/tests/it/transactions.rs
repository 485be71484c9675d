//! Transactional mode (G3): rows and record together or not at all, and what is answered when the transaction ends otherwise.

#[path = "transactions/controls.rs"]
#[cfg(feature = "fault-points")]
mod controls;
#[path = "transactions/deferring.rs"]
mod deferring;
#[path = "transactions/ends.rs"]
mod ends;
#[path = "transactions/in_the_way.rs"]
mod in_the_way;
#[path = "transactions/jobs.rs"]
mod jobs;
#[path = "transactions/traced.rs"]
mod traced;

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::Standing;
use oncekey_core::policy::{Policy, Timing, Verdict};
use oncekey_engine::{Call, Engine};
use oncekey_store_test::{EndFault, Gate, ScriptedTransactions};

use crate::upstream::{Run, Upstream};
use crate::world::{World, count, said, say, settle, spawn};

/// A node in transactional mode.
struct Stage {
    world: World,
    engine: Engine<u32>,
    upstream: Arc<Upstream>,
    transactions: Arc<ScriptedTransactions>,
}

impl Stage {
    async fn new() -> Self {
        let world = World::new();
        let engine = world.node().await;
        let transactions = Arc::new(ScriptedTransactions::new(world.store.clone()));
        Self { world, engine, upstream: Upstream::new(), transactions }
    }

    fn call(&self) -> Call<u32> {
        self.upstream.call_within("k", &self.transactions)
    }

    async fn run(&self) -> String {
        say(&self.engine.run(self.call()).await)
    }

    fn rows(&self) -> Vec<String> {
        self.transactions.rows()
    }
}

#[tokio::test(start_paused = true)]
async fn rows_and_record_are_there_together_and_nothing_before() {
    let stage = Stage::new().await;
    let gate = stage.upstream.held(Run::Answer(Verdict::Completed));
    let first = spawn(&stage.engine, stage.call());
    gate.reached().await;
    assert_eq!((stage.world.stands("k").await, stage.rows().len()), (Standing::Absent, 0), "nothing is committed");
    gate.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!((stage.world.stands("k").await, stage.rows()), (Standing::Completed, vec!["row 1".to_owned()]));
    assert_eq!((stage.run().await, stage.upstream.runs()), ("replay run 1".to_owned(), 1));
    assert_eq!(stage.transactions.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_recorded_leaves_no_rows() {
    let stage = Stage::new().await;
    stage.upstream.next(Run::Answer(Verdict::Declined));
    assert_eq!((stage.run().await, stage.run().await), ("first 1".to_owned(), "replay run 1".to_owned()));
    assert_eq!((stage.rows().len(), stage.upstream.runs()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_which_a_retry_may_run_leaves_nothing_and_is_given_as_it_is() {
    for verdict in [Verdict::Failed, Verdict::Unknown] {
        let stage = Stage::new().await;
        stage.upstream.next(Run::Answer(verdict));
        assert_eq!(stage.run().await, "first 1");
        assert_eq!((stage.world.found("k").await.is_none(), stage.rows().len()), (true, 0));
        assert_eq!(stage.run().await, "first 2");
        assert_eq!((stage.rows(), stage.upstream.attempts()), (vec!["row 2".to_owned()], vec![1, 1]));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waited_gets_the_answer_that_was_rolled_back() {
    let stage = Stage::new().await;
    let gate = stage.upstream.held(Run::Answer(Verdict::Failed));
    let first = spawn(&stage.engine, stage.call());
    gate.reached().await;
    let others = (0..3).map(|_| spawn(&stage.engine, stage.call())).collect();
    settle().await;
    gate.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!(said(others).await, ["waited run 1"; 3]);
    assert_eq!(stage.upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_fails_has_executed_nothing_and_its_waiters_know() {
    for run in [Run::Panic, Run::Lose, Run::Hang] {
        let stage = Stage::new().await;
        let gate = stage.upstream.held(run);
        let first = spawn(&stage.engine, stage.call());
        gate.reached().await;
        tokio::time::sleep(Duration::from_secs(9 * 60 + 59)).await;
        let other = spawn(&stage.engine, Call { policy: Arc::new(patient()), ..stage.call() });
        settle().await;
        gate.open();
        // Told to come back after answer_timeout, as in any other mode.
        assert_eq!(said(vec![first, other]).await, ["in progress", "not executed"]);
        assert_eq!((stage.world.found("k").await.is_none(), stage.rows().len()), (true, 0));
        assert_eq!(stage.run().await, "first 2", "a retry runs");
    }
}

fn patient() -> Policy {
    let timing = Timing { wait: Duration::from_mins(30), ..Timing::default() };
    Policy { timing, ..Policy::default() }
}

#[tokio::test(start_paused = true)]
async fn what_provably_did_nothing_is_handed_to_a_waiter() {
    let stage = Stage::new().await;
    let gate = stage.upstream.held(Run::Refuse);
    let first = spawn(&stage.engine, stage.call());
    gate.reached().await;
    let other = spawn(&stage.engine, stage.call());
    settle().await;
    gate.open();
    assert_eq!(said(vec![first, other]).await, ["not executed", "first 2"]);
    assert_eq!(stage.rows(), ["row 2"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_answered_before_the_end_and_a_client_that_leaves_changes_nothing() {
    let stage = Stage::new().await;
    let gate = Gate::default();
    stage.transactions.fail_end(EndFault::Held(gate.clone()));
    let mut first = spawn(&stage.engine, stage.call());
    gate.reached().await;
    let early = tokio::time::timeout(Duration::from_secs(30), &mut first).await;
    assert!(early.is_err(), "answered before the commit, {early:?}", early = early.is_ok());
    first.abort();
    settle().await;
    gate.open();
    settle().await;
    assert_eq!((stage.rows(), stage.run().await), (vec!["row 1".to_owned()], "replay run 1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn five_hundred_duplicates_hold_one_transaction() {
    let stage = Stage::new().await;
    let gate = stage.upstream.held(Run::Answer(Verdict::Completed));
    let calls: Vec<_> = (0..500).map(|_| spawn(&stage.engine, stage.call())).collect();
    gate.reached().await;
    settle().await;
    assert_eq!((stage.transactions.open(), stage.transactions.opened()), (1, 1));
    gate.open();
    let answers = said(calls).await;
    assert_eq!((count(&answers, "first 1"), count(&answers, "waited run 1")), (1, 64));
    assert_eq!(count(&answers, "in progress"), 435, "past max_waiters (W3)");
    assert_eq!((stage.transactions.opened(), stage.rows().len(), stage.upstream.runs()), (1, 1, 1));
}

/// The claim has no lease: it stands as long as its transaction is open.
#[tokio::test(start_paused = true)]
async fn a_pause_longer_than_the_lease_costs_nothing() {
    let stage = Stage::new().await;
    let gate = stage.upstream.held(Run::Answer(Verdict::Completed));
    let first = spawn(&stage.engine, stage.call());
    gate.reached().await;
    stage.world.clock.advance(Duration::from_mins(20));
    gate.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!((stage.world.stands("k").await, stage.rows().len()), (Standing::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_cut_at_the_end_of_a_node_is_rolled_back_and_not_unknown() {
    let stage = Stage::new().await;
    let gate = stage.upstream.held(Run::Answer(Verdict::Completed));
    let first = spawn(&stage.engine, stage.call());
    gate.reached().await;
    assert_eq!(stage.engine.shutdown(Duration::from_secs(1)).await, 0, "nothing becomes unknown");
    assert_eq!(said(vec![first]).await, ["not executed"]);
    assert_eq!((stage.world.stands("k").await, stage.rows().len()), (Standing::Absent, 0));
    assert_eq!((stage.transactions.open(), stage.upstream.ended()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_streamed_answer_begins_after_the_commit_and_is_recorded_without_its_body() {
    let stage = Stage::new().await;
    let (rest, end) = (Gate::default(), Gate::default());
    stage.transactions.fail_end(EndFault::Held(end.clone()));
    stage.upstream.next(Run::Stream(rest.clone()));
    let first = spawn(&stage.engine, stage.call());
    end.reached().await;
    settle().await;
    assert!(!first.is_finished(), "not before it is committed");
    end.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!((stage.rows().len(), stage.upstream.ended()), (1, 0), "committed, and not read to its end");
    rest.open();
    settle().await;
    assert_eq!((stage.upstream.ended(), stage.run().await), (1, "replay not stored".to_owned()));
}
