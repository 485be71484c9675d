//! The end of a node (D4).

use std::time::Duration;

use oncekey_core::policy::Verdict;
use oncekey_core::{Standing, State};
use oncekey_engine::Settings;
use oncekey_store_test::{Fault, Gate, Op};

use crate::upstream::{Run, Upstream};
use crate::world::{World, said, say, settings, settle, spawn};

const DRAIN: Duration = Duration::from_secs(70);

#[tokio::test(start_paused = true)]
async fn a_node_waits_for_what_runs_and_records_it() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let first = spawn(&engine, upstream.call("k"));
    gate.reached().await;
    let (cut, ()) = tokio::join!(engine.shutdown(DRAIN), async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        gate.open();
    });
    assert_eq!(cut, 0);
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!(world.stands("k").await, Standing::Completed);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_becomes_unknown_at_once_and_is_counted() {
    let (world, upstream) = (World::new(), Upstream::new());
    let (engine, other) = (world.node().await, world.node().await);
    upstream.next(Run::Hang);
    upstream.next(Run::Stream(Gate::default()));
    let hanging = spawn(&engine, upstream.call("k"));
    settle().await;
    let streaming = spawn(&engine, upstream.call("streamed"));
    assert_eq!(said(vec![streaming]).await, ["first 2"]);
    assert_eq!(engine.shutdown(Duration::from_secs(1)).await, 1, "the stream is recorded already");
    assert_eq!(said(vec![hanging]).await, ["unknown"]);
    assert_eq!(world.found("k").await.expect("a record").record.state, State::Unknown);
    assert_eq!(say(&other.run(upstream.call("k")).await), "unknown");
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_is_unknown_by_the_retirement_and_no_heartbeat_revives_it() {
    let (world, upstream) = (World::new(), Upstream::new());
    let store = world.second_face();
    let engine = world.node_on(store.clone(), settings()).await;
    upstream.next(Run::Hang);
    let _first = spawn(&engine, upstream.call("k"));
    settle().await;
    store.fail_always(Op::Record, Fault::NotApplied);
    assert_eq!(engine.shutdown(Duration::from_secs(1)).await, 1);
    assert_eq!(world.stands("k").await, Standing::Unknown);
    let beats = store.calls(Op::Heartbeat);
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(store.calls(Op::Heartbeat), beats);
    assert_eq!(world.stands("k").await, Standing::Unknown);
}

#[tokio::test(start_paused = true)]
async fn what_has_not_begun_is_not_begun_only_to_be_cut() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(Settings { max_inflight: 1, ..settings() }).await;
    upstream.next(Run::Hang);
    let hanging = spawn(&engine, upstream.call("a"));
    settle().await;
    let queued = spawn(&engine, upstream.call("b"));
    settle().await;
    assert_eq!(engine.shutdown(Duration::from_secs(1)).await, 1);
    assert_eq!(said(vec![hanging, queued]).await, ["unknown", "overloaded"]);
    assert_eq!((upstream.runs(), world.stands("b").await), (1, Standing::Absent));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_granted_after_the_cut_is_released_and_not_executed() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = world.store.hold_after(Op::Claim);
    let first = spawn(&engine, upstream.call("k"));
    gate.reached().await;
    let (_, ()) = tokio::join!(engine.shutdown(Duration::from_secs(1)), async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        gate.open();
    });
    assert_eq!(said(vec![first]).await, ["not executed"]);
    assert_eq!((upstream.runs(), world.stands("k").await), (0, Standing::Failed));
}

#[tokio::test(start_paused = true)]
async fn replay_counts_are_written_at_the_end() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    for _ in 0..3 {
        engine.run(upstream.call("k")).await;
    }
    engine.shutdown(DRAIN).await;
    assert_eq!(world.found("k").await.expect("a record").record.replays, 2);
}
