//! How many records a scope may have (`max_records_per_scope`): whom that stops, and whom it doesn't.

use std::time::Duration;

use oncekey_core::policy::Verdict;
use oncekey_engine::{Engine, Settings};
use oncekey_store::Store;
use oncekey_store_test::{Fault, Op, samples};

use crate::upstream::{Run, Upstream};
use crate::world::{World, said, say, settings, settle, spawn};

fn quota(most: u64) -> Settings {
    Settings { max_records_per_scope: Some(most), ..settings() }
}

async fn node(world: &World, most: u64) -> Engine<u32> {
    world.node_with(quota(most)).await
}

#[tokio::test(start_paused = true)]
async fn a_scope_gets_no_more_records_than_it_may_have_and_other_scopes_theirs() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = node(&world, 3).await;
    for (key, what) in
        [("a", "first 1"), ("b", "first 2"), ("c", "first 3"), ("d", "quota exceeded"), ("e", "quota exceeded")]
    {
        assert_eq!(say(&engine.run(upstream.call(key)).await), what);
    }
    let mut other = upstream.call("a");
    other.identity = samples::identity("acc-2", "a");
    assert_eq!(say(&engine.run(other).await), "first 4");
    assert_eq!(upstream.runs(), 4);
    assert_eq!(world.store.calls(Op::Claim), 4, "refused before anything is claimed");
}

#[tokio::test(start_paused = true)]
async fn whatever_has_a_record_is_answered_or_tried_again_however_full_its_scope_is() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = node(&world, 3).await;
    assert_eq!(say(&engine.run(upstream.call("done")).await), "first 1");
    upstream.next(Run::Answer(Verdict::Failed));
    assert_eq!(say(&engine.run(upstream.call("failed")).await), "first 2");
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let running = spawn(&engine, upstream.call("running"));
    settle().await;
    assert_eq!(say(&engine.run(upstream.call("new")).await), "quota exceeded");
    assert_eq!(say(&engine.run(upstream.call("done")).await), "replay run 1");
    assert_eq!(say(&engine.run(upstream.other_call("done")).await), "mismatch");
    let waiting = spawn(&engine, upstream.call("running"));
    settle().await;
    gate.open();
    assert_eq!(said(vec![running, waiting]).await, ["first 3", "waited run 3"]);
    assert_eq!(say(&engine.run(upstream.call("failed")).await), "first 4");
    assert_eq!(upstream.attempts(), [1, 1, 1, 2]);
    assert_eq!(say(&engine.run(upstream.call("new")).await), "quota exceeded");
}

#[tokio::test(start_paused = true)]
async fn an_expired_record_is_none_and_its_room_is_free_once_it_is_swept() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(Settings { sweep_every: Duration::from_hours(24 * 9), ..quota(1) }).await;
    assert_eq!(say(&engine.run(upstream.call("a")).await), "first 1");
    world.clock.advance(Duration::from_hours(49));
    assert_eq!(say(&engine.run(upstream.call("a")).await), "quota exceeded", "a new record, and not swept yet");
    assert_eq!(say(&engine.run(upstream.call("b")).await), "quota exceeded");
    let now = world.store.heartbeat(samples::owner(), Duration::ZERO).await.expect("now");
    world.store.sweep(now, 100).await.expect("swept");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(say(&engine.run(upstream.call("b")).await), "first 2");
}

#[tokio::test(start_paused = true)]
async fn another_nodes_records_count_within_a_second_and_a_scope_is_counted_no_oftener() {
    let (world, upstream) = (World::new(), Upstream::new());
    let (here, there) = (node(&world, 5).await, node(&world, 5).await);
    let began = world.store.calls(Op::CountScope);
    assert_eq!(say(&here.run(upstream.call("a")).await), "first 1");
    for key in ["b", "c", "d", "e"] {
        there.run(upstream.call(key)).await;
    }
    assert_eq!(world.store.calls(Op::CountScope) - began, 2, "once on each node");
    assert_eq!(say(&here.run(upstream.call("f")).await), "first 6", "approximately: it isn't seen yet");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(say(&here.run(upstream.call("g")).await), "quota exceeded");
    assert_eq!(world.store.calls(Op::CountScope) - began, 3);
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_counted_is_a_store_that_is_away() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = node(&world, 5).await;
    world.store.fail_next(Op::CountScope, Fault::NotApplied);
    assert_eq!(say(&engine.run(upstream.call("a")).await), "store unavailable");
    let gate = world.store.hold_before(Op::CountScope);
    assert_eq!(say(&engine.run(upstream.call("a")).await), "store unavailable", "in bounded time");
    gate.open();
    assert_eq!((upstream.runs(), world.store.calls(Op::Claim)), (0, 0));
    assert_eq!(say(&engine.run(upstream.call("a")).await), "first 1");
}

#[tokio::test(start_paused = true)]
async fn without_a_quota_nothing_is_counted() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    for key in ["a", "b", "c"] {
        engine.run(upstream.call(key)).await;
    }
    assert_eq!(world.store.calls(Op::CountScope), 0);
}
