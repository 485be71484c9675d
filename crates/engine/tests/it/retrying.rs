//! `on_unknown = "retry"`: the next retry takes an unknown outcome over and executes again (E4, E7, W4).

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::policy::{OnUnknown, Policy, Timing, Verdict};
use oncekey_core::{Standing, State};
use oncekey_engine::Call;
use oncekey_store::{Clock, Purged, Store};
use oncekey_store_test::{Fault, Gate, Op};

use crate::upstream::{Run, Upstream};
use crate::world::{World, count, said, say, settings, settle, spawn};

const PAST_THE_LEASE: Duration = Duration::from_secs(31);

fn policy() -> Policy {
    Policy { on_unknown: OnUnknown::Retry, ..Policy::default() }
}

fn call(upstream: &Arc<Upstream>) -> Call<u32> {
    upstream.call_under("k", policy())
}

#[tokio::test(start_paused = true)]
async fn the_request_that_saw_it_is_told_to_come_back_and_its_retry_executes_again() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    for run in [Run::Lose, Run::Panic, Run::Lose] {
        upstream.next(run);
        assert_eq!(say(&engine.run(call(&upstream)).await), "unknown for now");
        settle().await; // a panic is written off in the background
        assert_eq!(world.stands("k").await, Standing::Unknown);
    }
    assert_eq!(say(&engine.run(call(&upstream)).await), "first 4");
    assert_eq!(say(&engine.run(call(&upstream)).await), "replay run 4");
    assert_eq!(upstream.attempts(), [1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn control_under_hold_nothing_executes_again() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    upstream.next(Run::Lose);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "unknown");
    assert_eq!(say(&engine.run(upstream.call("k")).await), "unknown");
    assert_eq!(upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_means_unknown_is_delivered_and_the_retry_executes_again() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    upstream.next(Run::Answer(Verdict::Unknown));
    assert_eq!(say(&engine.run(call(&upstream)).await), "first 1");
    assert_eq!(say(&engine.run(call(&upstream)).await), "first 2");
}

#[tokio::test(start_paused = true)]
async fn waiters_are_told_to_come_back_and_none_of_them_takes_over() {
    let (world, upstream) = (World::new(), Upstream::new());
    let (engine, other) = (world.node().await, world.node().await);
    let gate = upstream.held(Run::Lose);
    let mut calls = vec![spawn(&engine, call(&upstream))];
    gate.reached().await;
    calls.extend([&engine, &engine, &other, &other].map(|node| spawn(node, call(&upstream))));
    settle().await;
    gate.open();
    assert_eq!(count(&said(calls).await, "unknown for now"), 5);
    assert_eq!(upstream.runs(), 1);
    assert_eq!(say(&other.run(call(&upstream)).await), "first 2");
}

#[tokio::test(start_paused = true)]
async fn another_request_takes_nothing_over() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    upstream.next(Run::Lose);
    engine.run(call(&upstream)).await;
    let other = Call { policy: Arc::new(policy()), ..upstream.other_call("k") };
    assert_eq!(say(&engine.run(other).await), "mismatch");
    assert_eq!((upstream.runs(), world.stands("k").await), (1, Standing::Unknown));
}

#[tokio::test(start_paused = true)]
async fn of_many_retries_on_two_nodes_one_takes_over() {
    let (world, upstream) = (World::new(), Upstream::new());
    let (engine, other) = (world.node().await, world.node().await);
    upstream.next(Run::Lose);
    engine.run(call(&upstream)).await;
    let nodes = [&engine, &other].into_iter().cycle().take(20);
    let answers = said(nodes.map(|node| spawn(node, call(&upstream))).collect()).await;
    assert_eq!(count(&answers, "first 2"), 1, "{answers:?}");
    assert_eq!(count(&answers, "waited run 2") + count(&answers, "replay run 2"), 19, "{answers:?}");
    assert_eq!(upstream.attempts(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn when_the_attempts_are_used_up_it_is_held() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let call = || upstream.call_under("k", Policy { max_attempts: 3, ..policy() });
    let mut answers = Vec::new();
    for _ in 0..5 {
        upstream.next(Run::Lose);
        answers.push(say(&engine.run(call()).await));
    }
    assert_eq!(answers, ["unknown for now", "unknown for now", "unknown", "unknown", "unknown"]);
    assert_eq!(upstream.attempts(), [1, 2, 3]);
}

/// An owner whose heartbeats stop while its run is held at the gate.
struct Silent {
    world: World,
    upstream: Arc<Upstream>,
    gate: Gate,
    first: tokio::task::JoinHandle<oncekey_engine::Ended<u32>>,
    rival: oncekey_engine::Engine<u32>,
}

async fn silent() -> Silent {
    let (world, upstream) = (World::new(), Upstream::new());
    let face = world.second_face();
    let owner = world.node_on(face.clone(), settings()).await;
    let rival = world.node().await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let first = spawn(&owner, call(&upstream));
    gate.reached().await;
    face.fail_always(Op::Heartbeat, Fault::NotApplied);
    world.clock.advance(PAST_THE_LEASE);
    Silent { world, upstream, gate, first, rival }
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_claim_is_taken_over_and_the_late_outcome_is_refused() {
    let Silent { world, upstream, gate, first, rival } = silent().await;
    assert_eq!(say(&rival.run(call(&upstream)).await), "first 2");
    gate.open();
    // One key has one answer.
    assert_eq!(said(vec![first]).await, ["waited run 2"]);
    assert_eq!(upstream.attempts(), [1, 2]);
    let record = world.found("k").await.expect("a record").record;
    assert_eq!((record.state, record.attempts), (State::Completed, 2));
}

#[tokio::test(start_paused = true)]
async fn who_executed_what_was_taken_over_is_told_to_come_back_while_that_runs() {
    let Silent { upstream, gate, first, rival, .. } = silent().await;
    let second = upstream.held(Run::Answer(Verdict::Completed));
    let taking_over = spawn(&rival, call(&upstream));
    second.reached().await;
    gate.open();
    assert_eq!(said(vec![first]).await, ["in progress"]);
    second.open();
    assert_eq!(said(vec![taking_over]).await, ["first 2"]);
}

/// What the record says is all that anyone is told of the key, also where it says that a retry may run.
#[tokio::test(start_paused = true)]
async fn who_executed_what_was_taken_over_gets_no_answer_that_the_record_does_not_have() {
    for (run, told) in [
        (Run::Answer(Verdict::Failed), "waited run 2"),
        (Run::Refuse, "in progress"),
        (Run::Lose, "unknown for now"),
        (Run::Answer(Verdict::Unknown), "unknown for now"),
    ] {
        let Silent { upstream, gate, first, rival, .. } = silent().await;
        upstream.next(run);
        rival.run(call(&upstream)).await;
        gate.open();
        assert_eq!(said(vec![first]).await, [told]);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_the_answer_of_another_request_that_has_the_key_by_now() {
    let Silent { world, upstream, gate, first, rival } = silent().await;
    let id = world.found("k").await.expect("a record").record.identity.id();
    assert_eq!(world.store.purge(id).await.expect("an answer"), Purged::Done);
    assert_eq!(say(&rival.run(upstream.other_call("k")).await), "first 2");
    gate.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
}

#[tokio::test(start_paused = true)]
async fn before_anyone_took_over_a_late_outcome_counts() {
    let Silent { world, upstream, gate, first, rival } = silent().await;
    world.store.sweep(world.clock.now(), 10).await.expect("swept");
    assert_eq!(world.found("k").await.map(|found| found.record.state), Some(State::Unknown));
    gate.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!(say(&rival.run(call(&upstream)).await), "replay run 1");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_comes_between_the_look_and_the_takeover_stands() {
    let Silent { world, upstream, gate, first, rival } = silent().await;
    // The rival has seen the lapsed claim; its second claim, which is to replace that, is held.
    let open = Gate::default();
    open.open();
    world.store.fail_next(Op::Claim, Fault::HeldAfter(open));
    let second = world.store.hold_before(Op::Claim);
    let retry = spawn(&rival, call(&upstream));
    second.reached().await;
    gate.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
    second.open();
    assert_eq!(said(vec![retry]).await, ["replay run 1"]);
    assert_eq!(upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_is_alive_is_not_taken_over_before_its_deadline() {
    let (world, upstream) = (World::new(), Upstream::new());
    let timing = Timing { upstream_timeout: Duration::from_hours(2), ..Timing::default() };
    let call = || upstream.call_under("k", Policy { timing, ..policy() });
    let (owner, rival) = (world.node().await, world.node().await);
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let first = spawn(&owner, call());
    gate.reached().await;
    for _ in 0..60 {
        world.clock.advance(Duration::from_secs(29));
        tokio::time::sleep(Duration::from_secs(11)).await; // a heartbeat
        assert_eq!(say(&rival.run(call()).await), "in progress");
    }
    gate.open();
    settle().await;
    assert_eq!(said(vec![first]).await, ["in progress"]); // it waited no longer than answer_timeout
    assert_eq!(say(&rival.run(call()).await), "replay run 1");
    assert_eq!(upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_ran_ahead_takes_nothing_over() {
    let (world, upstream) = (World::new(), Upstream::new());
    let (owner, rival) = (world.node().await, world.node().await);
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let first = spawn(&owner, call(&upstream));
    gate.reached().await;
    world.clock.jump(Duration::from_hours(1));
    assert_eq!(say(&rival.run(call(&upstream)).await), "unknown for now");
    assert_eq!(upstream.runs(), 1);
    gate.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
}

/// An owner that is paused between its claim and the check before its first byte.
async fn paused(meanwhile: impl AsyncFnOnce(&World, &Arc<Upstream>)) -> (World, Arc<Upstream>, String) {
    let (world, upstream) = (World::new(), Upstream::new());
    let owner = world.node().await;
    let gate = world.store.hold_after(Op::Claim);
    let first = spawn(&owner, call(&upstream));
    gate.reached().await;
    world.clock.advance(PAST_THE_LEASE);
    meanwhile(&world, &upstream).await;
    gate.open();
    let answer = said(vec![first]).await.remove(0);
    (world, upstream, answer)
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_taken_over_before_it_sent_sends_nothing() {
    let (_, upstream, answer) = paused(async |world, upstream| {
        let rival = world.node().await;
        assert_eq!(say(&rival.run(call(upstream)).await), "first 1");
    })
    .await;
    assert_eq!((answer.as_str(), upstream.runs()), ("waited run 1", 1));
}

#[tokio::test(start_paused = true)]
async fn control_an_owner_that_does_not_check_executes_what_was_taken_over() {
    let (_, upstream, _) = paused(async |world, upstream| {
        upstream.send_unchecked();
        let rival = world.node().await;
        assert_eq!(say(&rival.run(call(upstream)).await), "first 1");
    })
    .await;
    assert_eq!(upstream.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_wakes_in_time_is_alive_again_before_it_sends() {
    let mut beats = 0;
    let (world, upstream, answer) = paused(async |world, _| beats = world.store.calls(Op::Heartbeat)).await;
    assert_eq!((answer.as_str(), upstream.runs()), ("first 1", 1));
    // A heartbeat of its own: no time has passed in which another was due.
    assert_eq!(world.store.calls(Op::Heartbeat), beats + 1);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_cannot_be_made_alive_again_sends_nothing() {
    let (_, upstream, answer) = paused(async |world, _| world.store.fail_next(Op::Heartbeat, Fault::NotApplied)).await;
    assert_eq!((answer.as_str(), upstream.runs()), ("not executed", 0));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_at_the_takeover_lets_nothing_through_unguarded() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    upstream.next(Run::Lose);
    engine.run(call(&upstream)).await;
    let open = Gate::default();
    open.open();
    world.store.fail_next(Op::Claim, Fault::HeldAfter(open));
    world.store.fail_next(Op::Claim, Fault::NotApplied);
    let unguarded: oncekey_engine::Unguarded<u32> = Arc::new(|| panic!("it is let through"));
    let call = Call { unguarded: Some(unguarded), ..call(&upstream) };
    assert_eq!(say(&engine.run(call).await), "store unavailable");
    assert_eq!(upstream.runs(), 1);
}
