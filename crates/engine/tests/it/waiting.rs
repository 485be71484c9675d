//! How long a duplicate waits, how many may, and what a waiter holds (W1–W3).

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::policy::{Policy, Timing, Verdict};
use oncekey_engine::Settings;
use tokio::time::Instant;

use crate::upstream::{Run, Upstream};
use crate::world::{World, count, said, say, settings, settle, spawn};

#[tokio::test(start_paused = true)]
async fn a_duplicate_waits_for_the_outcome_and_is_woken_by_it() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let first = spawn(&engine, upstream.call("k"));
    gate.reached().await;
    let duplicate = spawn(&engine, upstream.call("k"));
    settle().await;
    assert!(!duplicate.is_finished());
    gate.open();
    assert_eq!(said(vec![first, duplicate]).await, ["first 1", "waited run 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_waits_no_longer_than_wait() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let first = spawn(&engine, upstream.call("k"));
    gate.reached().await;
    let asked = Instant::now();
    assert_eq!(say(&engine.run(upstream.call("k")).await), "in progress");
    assert_eq!(asked.elapsed().as_secs(), 1);
    gate.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
}

#[tokio::test(start_paused = true)]
async fn the_first_caller_waits_no_longer_than_answer_timeout_and_its_execution_goes_on() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    assert_eq!(say(&engine.run(upstream.call("k")).await), "in progress");
    gate.open();
    settle().await;
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
    assert_eq!(upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn waiters_beyond_the_bound_of_a_key_are_told_at_once() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let policy = Policy { max_waiters: 3, ..Policy::default() };
    let call = || spawn(&engine, upstream.call_under("k", policy.clone()));
    let first = call();
    gate.reached().await;
    let waiters: Vec<_> = (0..5).map(|_| call()).collect();
    settle().await;
    assert_eq!(waiters.iter().filter(|call| call.is_finished()).count(), 2);
    gate.open();
    let answers = said(waiters).await;
    assert_eq!((count(&answers, "waited run 1"), count(&answers, "in progress")), (3, 2));
    assert_eq!(said(vec![first]).await, ["first 1"]);
}

#[tokio::test(start_paused = true)]
async fn waiters_beyond_the_bound_of_the_node_are_told_at_once_and_a_place_left_is_a_place_free() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(Settings { max_waiters_all: 2, ..settings() }).await;
    let gates = [upstream.held(Run::Answer(Verdict::Completed)), upstream.held(Run::Answer(Verdict::Completed))];
    let firsts = vec![spawn(&engine, upstream.call("a")), spawn(&engine, upstream.call("b"))];
    settle().await;
    let leaving = spawn(&engine, upstream.call("a"));
    let staying = spawn(&engine, upstream.call("b"));
    settle().await;
    assert_eq!(say(&engine.run(upstream.call("a")).await), "in progress");
    leaving.abort();
    settle().await;
    let late = spawn(&engine, upstream.call("a"));
    settle().await;
    assert!(!late.is_finished(), "the place of the one who left is free");
    gates.iter().for_each(oncekey_store_test::Gate::open);
    assert_eq!(said(firsts).await, ["first 1", "first 2"]);
    assert_eq!(said(vec![staying, late]).await, ["waited run 2", "waited run 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_holds_no_body_and_an_execution_lets_go_of_its_own_when_it_ends() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let body = Arc::new([0u8; 16]);
    let with_body = || {
        let (body, work) = (Arc::clone(&body), upstream.work());
        let mut call = upstream.call("k");
        call.work = Arc::new(move |attempt| {
            let _ = &body;
            work(attempt)
        });
        call
    };
    let first = spawn(&engine, with_body());
    gate.reached().await;
    let waiters: Vec<_> = (0..10).map(|_| spawn(&engine, with_body())).collect();
    settle().await;
    assert_eq!(Arc::strong_count(&body), 2, "the test's and the leader's");
    let recording = world.store.hold_before(oncekey_store_test::Op::Record);
    gate.open();
    recording.reached().await;
    assert_eq!(Arc::strong_count(&body), 1, "recording needs no body");
    recording.open();
    assert_eq!(count(&said(waiters).await, "waited run 1"), 10);
    assert_eq!(said(vec![first]).await, ["first 1"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_place_among_the_executing_a_call_is_overloaded_and_claims_nothing() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(Settings { max_inflight: 1, ..settings() }).await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let running = spawn(&engine, upstream.call("a"));
    gate.reached().await;
    let timing = Timing { answer_timeout: Duration::from_secs(3), ..Timing::default() };
    let policy = Policy { timing, ..Policy::default() };
    assert_eq!(say(&engine.run(upstream.call_under("b", policy)).await), "overloaded");
    assert!(world.found("b").await.is_none());
    gate.open();
    assert_eq!(said(vec![running]).await, ["first 1"]);
    assert_eq!(say(&engine.run(upstream.call("b")).await), "first 2");
}

#[tokio::test(start_paused = true)]
async fn bounds_may_change_while_operations_run() {
    let (world, upstream) = (World::new(), Upstream::new());
    let narrow = Settings { max_inflight: 1, max_waiters_all: 0, ..settings() };
    let engine = world.node_with(narrow).await;
    let gates = ["a", "b"].map(|_| upstream.held(Run::Answer(Verdict::Completed)));
    let a = spawn(&engine, upstream.call("a"));
    gates[0].reached().await;
    assert_eq!(say(&engine.run(upstream.call("a")).await), "in progress", "nobody may wait");
    let b = spawn(&engine, upstream.call("b"));
    settle().await;
    assert!(world.found("b").await.is_none(), "there is one place");

    engine.adjust(&Settings { max_inflight: 2, max_waiters_all: 1, ..narrow });
    gates[1].reached().await;
    let waiter = spawn(&engine, upstream.call("a"));
    settle().await;
    assert_eq!(say(&engine.run(upstream.call("a")).await), "in progress", "one waits already");

    // Both go on, and so does who waits; but one of the places doesn't come back.
    engine.adjust(&Settings { max_inflight: 1, ..narrow });
    let c = spawn(&engine, upstream.call("c"));
    gates[0].open();
    assert_eq!(said(vec![a, waiter]).await, ["first 1", "waited run 1"]);
    settle().await;
    assert!(world.found("c").await.is_none(), "the one place is taken by b");
    gates[1].open();
    assert_eq!(said(vec![b, c]).await, ["first 2", "first 3"]);
}

#[tokio::test(start_paused = true)]
async fn sweeping_takes_up_another_pace_at_once() {
    let (world, upstream) = (World::new(), Upstream::new());
    let slow = Settings { sweep_every: Duration::from_hours(24), ..settings() };
    let engine = world.node_with(slow).await;
    settle().await;
    let timing = Timing { ttl: Duration::from_secs(1), ..Timing::default() };
    let policy = Policy { timing, ..Policy::default() };
    engine.run(upstream.call_under("a", policy)).await;
    world.clock.advance(Duration::from_secs(2));
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(world.found("a").await.is_some(), "nobody has swept");
    engine.adjust(&Settings { sweep_every: Duration::from_secs(1), ..slow });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(world.found("a").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn one_place_is_enough_for_many_keys_and_for_a_hand_over() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(Settings { max_inflight: 1, ..settings() }).await;
    let gate = upstream.held(Run::Refuse);
    let first = spawn(&engine, upstream.call("a"));
    gate.reached().await;
    let waiter = spawn(&engine, upstream.call("a"));
    let others: Vec<_> = ["b", "c", "d"].map(|key| spawn(&engine, upstream.call(key))).into();
    settle().await;
    gate.open();
    assert_eq!(said(vec![first]).await, ["not executed"]);
    assert_eq!(said(others).await, ["first 2", "first 3", "first 4"]);
    assert_eq!(said(vec![waiter]).await, ["first 5"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_record_answers_needs_no_place_among_the_executing() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(Settings { max_inflight: 1, ..settings() }).await;
    engine.run(upstream.call("done")).await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let running = spawn(&engine, upstream.call("a"));
    gate.reached().await;
    let (replay, mismatch) = (spawn(&engine, upstream.call("done")), spawn(&engine, upstream.other_call("done")));
    settle().await;
    assert!(replay.is_finished() && mismatch.is_finished(), "at once, though the only place is taken");
    assert_eq!(said(vec![replay]).await, ["replay run 1"]);
    assert_eq!(said(vec![mismatch]).await, ["mismatch"]);
    gate.open();
    assert_eq!(said(vec![running]).await, ["first 2"]);
}
