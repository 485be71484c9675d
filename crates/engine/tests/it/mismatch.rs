//! The same key with another request (F8, F9).

use std::sync::Arc;

use oncekey_core::policy::Verdict;
use oncekey_core::{Fingerprint, Recipe};
use oncekey_engine::{Call, Settings};
use oncekey_store_test::{Fault, Op};

use crate::upstream::{Run, Upstream};
use crate::world::{World, said, say, settle, spawn};

#[tokio::test(start_paused = true)]
async fn another_request_is_refused_at_once_while_the_first_runs() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let first = spawn(&engine, upstream.call("k"));
    gate.reached().await;
    let other = spawn(&engine, upstream.other_call("k"));
    settle().await;
    assert!(other.is_finished());
    assert_eq!(said(vec![other]).await, ["mismatch"]);
    gate.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
}

#[tokio::test(start_paused = true)]
async fn another_request_is_refused_as_soon_as_the_claim_of_the_first_is_answered() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let (claiming, gate) = (world.store.hold_before(Op::Claim), upstream.held(Run::Answer(Verdict::Completed)));
    let first = spawn(&engine, upstream.call("k"));
    claiming.reached().await;
    let other = spawn(&engine, upstream.other_call("k"));
    settle().await;
    assert!(!other.is_finished(), "nobody knows yet whose record it is");
    claiming.open();
    gate.reached().await;
    settle().await;
    assert!(other.is_finished());
    assert_eq!(said(vec![other]).await, ["mismatch"]);
    gate.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
}

#[tokio::test(start_paused = true)]
async fn another_request_executes_when_the_first_could_not_claim() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    world.store.fail_next(Op::Claim, Fault::NotApplied);
    let calls = vec![spawn(&engine, upstream.call("k")), spawn(&engine, upstream.other_call("k"))];
    assert_eq!(said(calls).await, ["store unavailable", "first 1"]);
}

#[tokio::test(start_paused = true)]
async fn another_request_is_refused_in_every_state_of_the_record() {
    let (world, upstream) = (World::new(), Upstream::new());
    for cache_for in [std::time::Duration::ZERO, Settings::default().cache_for] {
        let engine = world.node_with(Settings { cache_for, ..Settings::default() }).await;
        let ends = [
            ("completed", Run::Answer(Verdict::Completed)),
            ("failed", Run::Answer(Verdict::Failed)),
            ("refused", Run::Refuse),
            ("unknown", Run::Lose),
        ];
        for (state, run) in ends {
            let key = format!("{state}-{}", cache_for.as_secs());
            upstream.next(run);
            engine.run(upstream.call(&key)).await;
            let runs = upstream.runs();
            assert_eq!(say(&engine.run(upstream.other_call(&key)).await), "mismatch", "{key}");
            assert_eq!(upstream.runs(), runs, "{key}");
        }
    }
}

/// A call under a recipe with a header that differs between retries: only an older recipe knows them as the same.
fn under_new_recipe(upstream: &Arc<Upstream>, header: u8) -> Call<u32> {
    let recipe = Recipe::new(&[http::HeaderName::from_static("x-tenant")]).expect("a recipe");
    let old = Recipe::default();
    Call {
        fingerprint: Fingerprint::from_parts([header; 32], recipe.clone()),
        refingerprint: Arc::new(move |recipe: &Recipe| {
            Fingerprint::from_parts(if *recipe == old { [1; 32] } else { [header; 32] }, recipe.clone())
        }),
        ..upstream.call("k")
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_under_a_new_recipe_is_compared_under_the_records() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    engine.run(upstream.call("k")).await;
    assert_eq!(say(&engine.run(under_new_recipe(&upstream, 7)).await), "replay run 1");
}

#[tokio::test(start_paused = true)]
async fn retries_that_only_the_records_recipe_knows_as_one_are_no_mismatch_when_they_come_at_once() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    upstream.next(Run::Answer(Verdict::Failed));
    engine.run(upstream.call("k")).await;
    let gate = upstream.held(Run::Answer(Verdict::Completed));
    let leader = spawn(&engine, under_new_recipe(&upstream, 7));
    let early = spawn(&engine, under_new_recipe(&upstream, 8));
    gate.reached().await;
    let late = spawn(&engine, under_new_recipe(&upstream, 9));
    let other = spawn(&engine, upstream.other_call("k"));
    settle().await;
    gate.open();
    assert_eq!(said(vec![leader, early, late]).await, ["first 2", "replay run 2", "waited run 2"]);
    assert_eq!(said(vec![other]).await, ["mismatch"]);
    assert_eq!(upstream.runs(), 2);
}

/// A leader that turns out to be another request must not carry the record's own request into its mismatch.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_own_request_is_never_refused_for_another_one_beside_it() {
    let (world, upstream) = (World::new(), Upstream::new());
    let settings = Settings { cache_for: std::time::Duration::ZERO, ..Settings::default() };
    let engine = world.node_with(settings).await;
    assert_eq!(say(&engine.run(upstream.call("k")).await), "first 1");
    for _ in 0..2_000 {
        let others = [spawn(&engine, upstream.other_call("k")), spawn(&engine, upstream.other_call("k"))];
        let own = [spawn(&engine, upstream.call("k")), spawn(&engine, upstream.call("k"))];
        assert_eq!(said(own.into()).await, ["replay run 1", "replay run 1"]);
        assert_eq!(said(others.into()).await, ["mismatch", "mismatch"]);
    }
}
