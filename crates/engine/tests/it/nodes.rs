//! Two nodes on one store: duplicates across nodes, owners that die, outcomes that come late (W1, W4, E4).

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::policy::Verdict;
use oncekey_store::Store;
use oncekey_store_test::{Fault, Gate, Op};
use tokio::time::Instant;

use crate::broken_store::{Breaks, BrokenStore};
use crate::upstream::{Run, Upstream};
use crate::world::{World, count, said, say, settings, settle, spawn};

/// Runs a call on one node, held at the gate; gives the other node.
struct Apart {
    world: World,
    upstream: Arc<Upstream>,
    gate: Gate,
    first: tokio::task::JoinHandle<oncekey_engine::Ended<u32>>,
    other: oncekey_engine::Engine<u32>,
}

async fn apart(run: Run) -> Apart {
    let (world, upstream) = (World::new(), Upstream::new());
    let (node, other) = (world.node().await, world.node().await);
    let gate = upstream.held(run);
    let first = spawn(&node, upstream.call("k"));
    gate.reached().await;
    Apart { world, upstream, gate, first, other }
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_on_another_node_waits_and_gets_the_replay() {
    let Apart { upstream, gate, first, other, .. } = apart(Run::Answer(Verdict::Completed)).await;
    let waiters: Vec<_> = (0..10).map(|_| spawn(&other, upstream.call("k"))).collect();
    settle().await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    gate.open();
    assert_eq!(count(&said(waiters).await, "waited run 1"), 10);
    assert_eq!(said(vec![first]).await, ["first 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_on_another_node_waits_no_longer_than_wait() {
    let Apart { world, upstream, first, other, .. } = apart(Run::Answer(Verdict::Completed)).await;
    let asked = Instant::now();
    assert_eq!(say(&other.run(upstream.call("k")).await), "in progress");
    let waited = asked.elapsed();
    assert!(Duration::from_secs(1) <= waited && waited < Duration::from_millis(1100), "{waited:?}");
    settle().await;
    let looks = world.store.calls(Op::Peek);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.store.calls(Op::Peek), looks, "nobody waits, nobody asks");
    assert!(!first.is_finished());
}

#[tokio::test(start_paused = true)]
async fn another_request_on_another_node_is_refused() {
    let Apart { upstream, other, .. } = apart(Run::Answer(Verdict::Completed)).await;
    let same = spawn(&other, upstream.call("k"));
    settle().await;
    assert_eq!(say(&other.run(upstream.other_call("k")).await), "mismatch");
    assert!(!same.is_finished());
}

#[tokio::test(start_paused = true)]
async fn waiters_of_another_node_get_the_answer_of_a_failed_run() {
    let Apart { upstream, gate, first, other, .. } = apart(Run::Answer(Verdict::Failed)).await;
    let waiters: Vec<_> = (0..5).map(|_| spawn(&other, upstream.call("k"))).collect();
    settle().await;
    gate.open();
    assert_eq!(count(&said(waiters).await, "waited run 1"), 5);
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!(upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn when_the_other_node_sent_nothing_one_waiter_here_executes() {
    let Apart { upstream, gate, first, other, .. } = apart(Run::Refuse).await;
    let waiters: Vec<_> = (0..5).map(|_| spawn(&other, upstream.call("k"))).collect();
    settle().await;
    gate.open();
    let answers = said(waiters).await;
    assert_eq!((count(&answers, "first 2"), count(&answers, "waited run 2")), (1, 4));
    assert_eq!(said(vec![first]).await, ["not executed"]);
    assert_eq!(upstream.attempts(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn whoever_still_waits_gets_the_first_answer_when_the_asking_caller_has_left() {
    let Apart { upstream, gate, first, other, .. } = apart(Run::Refuse).await;
    let asking = spawn(&other, upstream.call("k"));
    settle().await;
    let waiter = spawn(&other, upstream.call("k"));
    settle().await;
    asking.abort();
    settle().await;
    gate.open();
    assert_eq!(said(vec![first, waiter]).await, ["not executed", "first 2"]);
}

/// Lets the owner fall silent for longer than its lease while a duplicate waits elsewhere.
async fn owner_gone(face: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>) -> (String, u32) {
    let (world, upstream) = (World::new(), Upstream::new());
    let dying = world.second_face();
    dying.fail_always(Op::Record, Fault::NotApplied);
    let node = world.node_on(dying.clone(), settings()).await;
    let other = world.node_on(face(world.store.clone()), settings()).await;
    upstream.next(Run::Hang);
    let _first = spawn(&node, upstream.call("k"));
    settle().await;
    dying.fail_always(Op::Heartbeat, Fault::NotApplied);
    let waiter = spawn(&other, upstream.call("k"));
    settle().await;
    world.clock.advance(Duration::from_secs(31));
    let answer = said(vec![waiter]).await.remove(0);
    (answer, upstream.runs())
}

#[tokio::test(start_paused = true)]
async fn waiters_are_told_when_the_owner_is_gone_and_nothing_runs_again() {
    assert_eq!(owner_gone(|store| store).await, ("unknown".to_owned(), 1));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_takes_every_owner_for_alive_is_caught() {
    let (answer, _) = owner_gone(|store| Arc::new(BrokenStore(store, Breaks::Lapses))).await;
    assert_ne!(answer, "unknown");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stops_answering_keeps_waiters_no_longer_than_wait() {
    for fault in [Fault::NotApplied, Fault::HeldBefore(Gate::default())] {
        let Apart { world, upstream, other, .. } = apart(Run::Answer(Verdict::Completed)).await;
        world.store.fail_always(Op::Peek, fault);
        assert_eq!(say(&other.run(upstream.call("k")).await), "in progress");
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_that_hangs_does_not_blind_the_node_for_good() {
    let Apart { world, upstream, gate, other, .. } = apart(Run::Answer(Verdict::Completed)).await;
    world.store.hold_before(Op::Peek);
    assert_eq!(say(&other.run(upstream.call("k")).await), "in progress");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let waiter = spawn(&other, upstream.call("k"));
    settle().await;
    gate.open();
    assert_eq!(said(vec![waiter]).await, ["waited run 1"]);
}
