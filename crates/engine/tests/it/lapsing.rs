//! Pauses between the claim and the first byte (E10).

use std::time::Duration;

use oncekey_core::policy::{OnUnknown, Policy, Verdict};
use oncekey_core::{Standing, State};
use oncekey_store::{Clock, Resolution, Resolved, Store};
use oncekey_store_test::{Fault, Gate, Op, samples};

use crate::upstream::{Run, Upstream};
use crate::world::{World, said, say, settle, spawn};

/// A node that is paused for `pause` between its claim and the check before the first byte.
async fn paused(world: &World, upstream: &std::sync::Arc<Upstream>, pause: Duration) -> String {
    let engine = world.node().await;
    let (gate, work) = (Gate::default(), upstream.work());
    let mut call = upstream.call("k");
    let held = gate.clone();
    call.work = std::sync::Arc::new(move |attempt| {
        let (held, work) = (held.clone(), work.clone());
        Box::pin(async move {
            held.pass().await;
            work(attempt).await
        })
    });
    let first = spawn(&engine, call);
    gate.reached().await;
    world.clock.advance(pause);
    world.store.sweep(world.clock.now(), 10).await.expect("swept");
    gate.open();
    said(vec![first]).await.remove(0)
}

const SHORT: Duration = Duration::from_secs(29);
const LONG: Duration = Duration::from_secs(31);

#[tokio::test(start_paused = true)]
async fn within_the_lease_the_store_is_not_asked_again() {
    let (world, upstream) = (World::new(), Upstream::new());
    assert_eq!(paused(&world, &upstream, SHORT).await, "first 1");
    assert_eq!(world.store.calls(Op::Read), 0);
}

#[tokio::test(start_paused = true)]
async fn past_the_lease_nothing_is_sent_without_the_token_in_place() {
    let (world, upstream) = (World::new(), Upstream::new());
    assert_eq!(paused(&world, &upstream, LONG).await, "not executed");
    assert_eq!((upstream.runs(), world.stands("k").await), (0, Standing::Failed));
}

#[tokio::test(start_paused = true)]
async fn a_sender_that_does_not_check_is_caught() {
    let (world, upstream) = (World::new(), Upstream::new());
    upstream.send_unchecked();
    paused(&world, &upstream, LONG).await;
    assert_eq!(upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn past_the_lease_a_claim_that_still_stands_is_executed() {
    let (world, upstream) = (World::new(), Upstream::new());
    world.store.fail_always(Op::Sweep, Fault::NotApplied);
    let engine = world.node().await;
    let gate = world.store.hold_after(Op::Claim);
    let first = spawn(&engine, upstream.call("k"));
    gate.reached().await;
    world.clock.advance(LONG);
    gate.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!(world.store.calls(Op::Read), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_confirm_the_claim_again_is_no_confirmation() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    world.store.fail_next(Op::Read, Fault::NotApplied);
    let gate = world.store.hold_after(Op::Claim);
    let first = spawn(&engine, upstream.call("k"));
    gate.reached().await;
    world.clock.advance(LONG);
    gate.open();
    assert_eq!(said(vec![first]).await, ["not executed"]);
    assert_eq!(upstream.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pause_while_the_claim_is_confirmed_again_is_no_confirmation_either() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let (claim, read) = (world.store.hold_after(Op::Claim), world.store.hold_after(Op::Read));
    let first = spawn(&engine, upstream.call("k"));
    claim.reached().await;
    world.clock.advance(LONG);
    claim.open();
    read.reached().await;
    world.clock.advance(LONG);
    read.open();
    assert_eq!(said(vec![first]).await, ["not executed"]);
    assert_eq!(upstream.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn past_the_lease_a_claim_that_another_node_replaced_sends_nothing() {
    let (world, upstream) = (World::new(), Upstream::new());
    let (engine, other) = (world.node().await, world.node().await);
    let gate = world.store.hold_after(Op::Claim);
    let first = spawn(&engine, upstream.call("k"));
    gate.reached().await;
    world.clock.advance(LONG);
    world.store.resolve(samples::identity("acc-1", "k").id(), Resolution::Failed).await.expect("resolved");
    assert_eq!(say(&other.run(upstream.call("k")).await), "first 1");
    gate.open();
    settle().await;
    assert_eq!(said(vec![first]).await, ["waited run 1"]);
    assert_eq!(upstream.runs(), 1);
}

/// A claim that had lapsed and was confirmed again is valid from then on: neither an operator nor a node under another policy
/// gives its record to anyone else while its byte is on its way.
#[tokio::test(start_paused = true)]
async fn past_the_lease_a_claim_that_is_confirmed_again_is_valid_again_before_anything_is_sent() {
    let (world, upstream) = (World::new(), Upstream::new());
    let (engine, other) = (world.node().await, world.node().await);
    let (claim, sent) = (world.store.hold_after(Op::Claim), upstream.held(Run::Answer(Verdict::Completed)));
    let first = spawn(&engine, upstream.call("k"));
    claim.reached().await;
    world.clock.advance(LONG);
    claim.open();
    sent.reached().await;
    let id = samples::identity("acc-1", "k").id();
    let resolved = world.store.resolve(id, Resolution::Failed).await;
    assert_eq!(resolved.expect("an answer"), Resolved::NotUnknown(State::Processing));
    let retrying = Policy { on_unknown: OnUnknown::Retry, ..Policy::default() };
    assert_eq!(say(&other.run(upstream.call_under("k", retrying)).await), "in progress");
    sent.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!(upstream.runs(), 1);
}
