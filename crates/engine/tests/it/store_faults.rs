//! A store that fails at claim time (D1, D2).

use std::time::Duration;

use oncekey_core::Standing;
use oncekey_store_test::{Fault, Op};
use tokio::time::Instant;

use crate::upstream::Upstream;
use crate::world::{World, said, say, settle, spawn};

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_not_applied_executes_nothing() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    world.store.fail_next(Op::Claim, Fault::NotApplied);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "store unavailable");
    assert_eq!(upstream.runs(), 0);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "first 1");
    assert_eq!(upstream.attempts(), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_is_never_taken_for_absent() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    world.store.fail_next(Op::Claim, Fault::Corrupt);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "unreadable");
    assert_eq!(upstream.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_hangs_is_given_up_in_time_and_released_once_it_is_answered() {
    for after in [false, true] {
        let (world, upstream) = (World::new(), Upstream::new());
        let engine = world.node().await;
        let gate = if after { world.store.hold_after(Op::Claim) } else { world.store.hold_before(Op::Claim) };
        let asked = Instant::now();
        let calls = vec![spawn(&engine, upstream.call("k"))];
        assert_eq!(said(calls).await, ["store unavailable"]);
        assert_eq!(asked.elapsed().as_secs(), 5);
        gate.open();
        settle().await;
        assert_eq!(world.stands("k").await, Standing::Failed, "released by its token");
        assert_eq!(upstream.runs(), 0, "a claim that was given up is never executed");
        assert_eq!(say(&engine.run(upstream.call("k")).await), "first 1");
        assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_overtakes_a_claim_under_way_executes_and_is_not_released_with_it() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = world.store.hold_before(Op::Claim);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "store unavailable");
    assert_eq!(say(&engine.run(upstream.call("k")).await), "first 1");
    gate.open();
    settle().await;
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
    assert_eq!(upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_acknowledgement_of_a_claim_is_settled_and_executes_once() {
    for fault in [Fault::ReplyLost, Fault::RequestLost] {
        let (world, upstream) = (World::new(), Upstream::new());
        let engine = world.node().await;
        world.store.fail_next(Op::Claim, fault);
        assert_eq!(say(&engine.run(upstream.call("k")).await), "first 1");
        assert_eq!(upstream.attempts(), [1], "it finds its own claim and doesn't lock itself out");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_acknowledgement_was_lost_before_the_store_went_away_is_released() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    world.store.fail_next(Op::Claim, Fault::ReplyLost);
    world.store.fail_next(Op::Claim, Fault::NotApplied);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "store unavailable");
    settle().await;
    assert_eq!((upstream.runs(), world.stands("k").await), (0, Standing::Failed));
    assert_eq!(say(&engine.run(upstream.call("k")).await), "first 1");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_ambiguous_is_given_up_in_time() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    world.store.fail_always(Op::Claim, Fault::ReplyLost);
    let asked = Instant::now();
    assert_eq!(say(&engine.run(upstream.call("k")).await), "store unavailable");
    assert!(asked.elapsed() <= Duration::from_secs(5));
    world.store.heal(Op::Claim);
    settle().await;
    assert_eq!((upstream.runs(), world.stands("k").await), (0, Standing::Failed));
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_claim_that_failed_are_told_so() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = world.store.hold_before(Op::Claim);
    let mut slow = upstream.call("k");
    let mut policy = oncekey_core::policy::Policy::default();
    policy.timing.wait = Duration::from_secs(10);
    slow.policy = std::sync::Arc::new(policy.clone());
    let calls = vec![spawn(&engine, slow), spawn(&engine, upstream.call_under("k", policy))];
    assert_eq!(said(calls).await, ["store unavailable", "store unavailable"]);
    gate.open();
    settle().await;
    assert_eq!(upstream.runs(), 0);
}
