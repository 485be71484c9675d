//! One execution, however many ask at once (E1, W1), and the negative control.

use std::sync::Arc;

use oncekey_core::policy::{Policy, Verdict};
use oncekey_store::Store;

use crate::broken_store::{Breaks, BrokenStore};
use crate::upstream::{Run, Upstream};
use crate::world::{World, count, patient, said, settings, settle, spawn};

/// `count` callers at once on one key of a slow upstream.
async fn storm(callers: usize) -> (Arc<Upstream>, Vec<String>) {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let policy = Policy { max_waiters: callers, ..Policy::default() };
    let calls = (0..callers).map(|_| spawn(&engine, upstream.call_under("k", policy.clone()))).collect();
    gate.reached().await;
    settle().await;
    gate.open();
    let answers = said(calls).await;
    (upstream, answers)
}

#[tokio::test(start_paused = true)]
async fn sixty_four_calls_at_once_are_one_execution_and_one_first_answer() {
    let (upstream, answers) = storm(64).await;
    assert_eq!(upstream.runs(), 1);
    assert_eq!(count(&answers, "first 1"), 1);
    assert_eq!(count(&answers, "waited run 1"), 63);
}

#[tokio::test(start_paused = true)]
async fn five_hundred_calls_at_once_are_one_execution_and_one_first_answer() {
    let (upstream, answers) = storm(500).await;
    assert_eq!(upstream.runs(), 1);
    assert_eq!(count(&answers, "first 1"), 1);
    assert_eq!(count(&answers, "waited run 1"), 499);
}

/// Rounds of callers on real threads, spread over two nodes, on a fast upstream; the runs and first answers of each round.
async fn rounds(face: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>) -> Vec<(u32, usize)> {
    let world = World::new();
    let mut nodes = Vec::new();
    for _ in 0..2 {
        nodes.push(world.node_on(face(world.store.clone()), settings()).await);
    }
    let mut rounds = Vec::new();
    for round in 0..50 {
        let upstream = Upstream::new();
        let call = |index: usize| spawn(&nodes[index % 2], upstream.call_under(&format!("key-{round}"), patient()));
        let answers = said((0..32).map(call).collect()).await;
        let firsts = count(&answers, "first 1");
        let replays = count(&answers, "waited run 1") + count(&answers, "replay run 1");
        rounds.push((upstream.runs(), if firsts + replays == 32 { firsts } else { usize::MAX }));
    }
    rounds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_that_race_on_two_nodes_are_one_execution_and_get_one_answer() {
    for (runs, firsts) in rounds(|store| store).await {
        assert_eq!((runs, firsts), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_grants_every_claim_is_caught() {
    let rounds = rounds(|store| Arc::new(BrokenStore(store, Breaks::Claims))).await;
    assert!(rounds.iter().any(|(runs, _)| *runs > 1), "{rounds:?}");
}

#[tokio::test(start_paused = true)]
async fn keys_and_scopes_do_not_wait_for_each_other() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let slow = spawn(&engine, upstream.call("slow"));
    gate.reached().await;
    let mut same_key = upstream.call("slow");
    same_key.identity = oncekey_store_test::samples::identity("acc-2", "slow");
    let others = vec![spawn(&engine, upstream.call("fast")), spawn(&engine, same_key)];
    assert_eq!(said(others).await, ["first 2", "first 3"]);
    gate.open();
    assert_eq!(said(vec![slow]).await, ["first 1"]);
}
