//! Outcomes that the store doesn't take at once, or not any more (E2, E4, D3).

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::policy::Verdict;
use oncekey_core::{Standing, State};
use oncekey_engine::Settings;
use oncekey_store::{Resolution, Store};
use oncekey_store_test::{Fault, Op, samples};
use tokio::time::Instant;

use crate::broken_store::{Breaks, BrokenStore};
use crate::upstream::{Run, Upstream};
use crate::world::{World, said, say, settings, settle, spawn};

#[tokio::test(start_paused = true)]
async fn an_outcome_is_recorded_before_it_is_answered() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let recording = world.store.hold_before(Op::Record);
    let first = spawn(&engine, upstream.call("k"));
    recording.reached().await;
    settle().await;
    assert!(!first.is_finished());
    recording.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!(world.stands("k").await, Standing::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_acknowledges_what_it_does_not_write_is_caught() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_on(Arc::new(BrokenStore(world.store.clone(), Breaks::Outcomes)), settings()).await;
    assert_eq!(say(&engine.run(upstream.call("k")).await), "first 1");
    assert_ne!(world.stands("k").await, Standing::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_cannot_be_recorded_is_answered_in_time_and_recorded_later() {
    for fault in [Fault::NotApplied, Fault::RequestLost, Fault::Misconfigured] {
        let (world, upstream) = (World::new(), Upstream::new());
        let engine = world.node().await;
        world.store.fail_always(Op::Record, fault);
        let asked = Instant::now();
        assert_eq!(say(&engine.run(upstream.call("k")).await), "first 1");
        assert_eq!(asked.elapsed().as_secs(), 5);
        assert_eq!(say(&engine.run(upstream.call("k")).await), "in progress", "a retry doesn't run it again");
        world.store.heal(Op::Record);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
        assert_eq!(upstream.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_outcome_whose_writing_hangs_is_answered_and_recorded_by_a_later_try() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    world.store.hold_before(Op::Record);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "first 1");
    settle().await;
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
}

#[tokio::test(start_paused = true)]
async fn past_the_bound_in_bytes_an_outcome_is_recorded_without_its_body() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(Settings { unrecorded_bytes: "run 1".len(), ..Settings::default() }).await;
    world.store.fail_always(Op::Record, Fault::NotApplied);
    let calls = vec![spawn(&engine, upstream.call("a")), spawn(&engine, upstream.call("b"))];
    assert_eq!(said(calls).await, ["first 1", "first 2"]);
    world.store.heal(Op::Record);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut answers = [say(&engine.run(upstream.call("a")).await), say(&engine.run(upstream.call("b")).await)];
    answers.sort();
    assert!(answers[0] == "replay not stored" && answers[1].starts_with("replay run"), "{answers:?}");
    assert_eq!(upstream.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_never_changes_when_the_body_was_written_by_an_earlier_try() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(Settings { unrecorded_bytes: 0, ..Settings::default() }).await;
    world.store.hold_after(Op::Record);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "first 1");
    settle().await;
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_is_given_up_after_record_retry_and_counts_as_unknown_once_it_lapses() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(Settings { record_retry: Duration::from_mins(1), ..settings() }).await;
    world.store.fail_always(Op::Record, Fault::NotApplied);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "first 1");
    tokio::time::sleep(Duration::from_secs(70)).await;
    let tries = world.store.calls(Op::Record);
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(world.store.calls(Op::Record), tries, "it is given up");
    assert_eq!(say(&engine.run(upstream.call("k")).await), "in progress");
    world.clock.advance(Duration::from_secs(631));
    assert_eq!(say(&engine.run(upstream.call("k")).await), "unknown");
    assert_eq!(upstream.runs(), 1);
}

/// Lets an operator say how a lapsed execution ended while it still runs; what the caller and a retry get then.
async fn resolved_meanwhile(breaks: Option<Breaks>) -> [String; 2] {
    let (world, upstream) = (World::new(), Upstream::new());
    let store: Arc<dyn Store> = match breaks {
        Some(breaks) => Arc::new(BrokenStore(world.store.clone(), breaks)),
        None => world.store.clone(),
    };
    let engine = world.node_on(store, settings()).await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let first = spawn(&engine, upstream.call("k"));
    gate.reached().await;
    world.clock.advance(Duration::from_secs(631));
    let id = samples::identity("acc-1", "k").id();
    let verdict = Resolution::Completed { response: samples::response("the operator's"), token: samples::token() };
    world.store.resolve(id, verdict).await.expect("resolved");
    gate.open();
    let first = said(vec![first]).await.remove(0);
    [first, say(&engine.run(upstream.call("k")).await)]
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_an_operator_was_faster_than_is_refused_and_all_get_the_operators() {
    assert_eq!(resolved_meanwhile(None).await, ["waited the operator's", "replay the operator's"]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_compare_tokens_is_caught() {
    assert_ne!(
        resolved_meanwhile(Some(Breaks::Tokens)).await,
        ["waited the operator's".to_owned(), "replay the operator's".to_owned()]
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_outcome_counts_as_long_as_nobody_took_the_record_over() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let first = spawn(&engine, upstream.call("k"));
    gate.reached().await;
    world.clock.advance(Duration::from_secs(631));
    world.store.sweep(oncekey_store::Clock::now(&*world.clock), 10).await.expect("swept");
    assert_eq!(world.found("k").await.expect("a record").record.state, State::Unknown);
    gate.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
}
