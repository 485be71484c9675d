//! Execution belongs to the engine (E3), and an execution that nobody can vouch for is unknown and isn't repeated (E7).

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::Standing;
use oncekey_core::policy::Verdict;
use oncekey_store_test::Op;

use crate::upstream::{Run, Upstream};
use crate::world::{World, said, say, settle, spawn};

#[tokio::test(start_paused = true)]
async fn an_ambiguous_end_is_unknown_for_all_and_nothing_runs_again() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = upstream.held(Run::Lose);
    let first = spawn(&engine, upstream.call("k"));
    gate.reached().await;
    let waiter = spawn(&engine, upstream.call("k"));
    settle().await;
    gate.open();
    assert_eq!(said(vec![first, waiter]).await, ["unknown", "unknown"]);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "unknown");
    assert_eq!((upstream.runs(), world.stands("k").await), (1, Standing::Unknown));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_leaves_the_outcome_open_is_delivered_once_and_unknown_afterwards() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    upstream.next(Run::Answer(Verdict::Unknown));
    assert_eq!(say(&engine.run(upstream.call("k")).await), "first 1");
    assert_eq!(say(&engine.run(upstream.call("k")).await), "unknown");
    assert_eq!(upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_execution_over_its_time_is_written_off() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    upstream.next(Run::Hang);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "in progress");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(world.found("k").await.expect("a record").record.state, oncekey_core::State::Unknown);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "unknown");
    assert_eq!(upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_written_off_before_it_is_answered() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    upstream.next(Run::Panic);
    assert_eq!(say(&engine.run(upstream.call("in-the-future")).await), "unknown");
    assert_eq!(world.stands("in-the-future").await, Standing::Unknown);
    let mut call = upstream.call("in-the-closure");
    call.work = Arc::new(|_| panic!("asked to panic"));
    assert_eq!(say(&engine.run(call).await), "unknown");
    assert_eq!(world.stands("in-the-closure").await, Standing::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_changes_nothing_whenever_it_leaves() {
    for phase in ["claiming", "claimed", "running", "recording"] {
        let (world, upstream) = (World::new(), Upstream::new());
        let engine = world.node().await;
        let gate = match phase {
            "claiming" => world.store.hold_before(Op::Claim),
            "claimed" => world.store.hold_after(Op::Claim),
            "running" => upstream.held(Run::Answer(Verdict::Completed)),
            _ => world.store.hold_before(Op::Record),
        };
        let first = spawn(&engine, upstream.call("k"));
        gate.reached().await;
        let waiter = spawn(&engine, upstream.call("k"));
        settle().await;
        first.abort();
        settle().await;
        gate.open();
        assert_eq!(said(vec![waiter]).await, ["waited run 1"], "{phase}");
        assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1", "{phase}");
        assert_eq!(upstream.runs(), 1, "{phase}");
    }
}
