//! Records that end `failed`: what their waiters get, and that a retry runs again (E5, E6, E8, W4).

use oncekey_core::Standing;
use oncekey_core::policy::Verdict;

use crate::upstream::{Run, Upstream};
use crate::world::{World, count, patient, said, say, settle, spawn};

#[tokio::test(start_paused = true)]
async fn after_failed_the_same_request_runs_again_as_the_next_attempt() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    for (run, end) in [(Run::Answer(Verdict::Failed), "first 1"), (Run::Refuse, "not executed")] {
        upstream.next(run);
        assert_eq!(say(&engine.run(upstream.call("k")).await), end);
        assert_eq!(world.stands("k").await, Standing::Failed);
    }
    assert_eq!(say(&engine.run(upstream.call("k")).await), "first 3");
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 3");
    assert_eq!(upstream.attempts(), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn all_who_waited_get_the_answer_of_a_failed_run_and_whoever_comes_later_executes() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = upstream.held(Run::Answer(Verdict::Failed));
    let first = spawn(&engine, upstream.call("k"));
    gate.reached().await;
    let waiters: Vec<_> = (0..20).map(|_| spawn(&engine, upstream.call("k"))).collect();
    settle().await;
    gate.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!(count(&said(waiters).await, "waited run 1"), 20);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "first 2");
}

#[tokio::test(start_paused = true)]
async fn when_nothing_was_sent_one_waiter_executes_and_gets_the_first_answer() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = upstream.held(Run::Refuse);
    let first = spawn(&engine, upstream.call("k"));
    gate.reached().await;
    let waiters: Vec<_> = (0..20).map(|_| spawn(&engine, upstream.call("k"))).collect();
    settle().await;
    gate.open();
    assert_eq!(said(vec![first]).await, ["not executed"]);
    let answers = said(waiters).await;
    assert_eq!((count(&answers, "first 2"), count(&answers, "waited run 2")), (1, 19));
    assert_eq!(upstream.attempts(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_inherited_first_answer_is_never_passed_over_for_its_replay() {
    let world = World::new();
    let engine = world.node().await;
    for round in 0..200 {
        let (upstream, key) = (Upstream::new(), format!("key-{round}"));
        let gate = upstream.held(Run::Refuse);
        let first = spawn(&engine, upstream.call(&key));
        gate.reached().await;
        let mut waiters: Vec<_> = (0..8).map(|_| spawn(&engine, upstream.call_under(&key, patient()))).collect();
        tokio::task::yield_now().await;
        gate.open();
        waiters.push(first);
        let answers = said(waiters).await;
        // Who comes only after the hand-over may begin the second run itself.
        assert_eq!((upstream.runs(), count(&answers, "first 2")), (2, 1), "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_left_does_not_inherit() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = upstream.held(Run::Refuse);
    let first = spawn(&engine, upstream.call("k"));
    gate.reached().await;
    let gone = spawn(&engine, upstream.call("k"));
    settle().await;
    let there = spawn(&engine, upstream.call("k"));
    settle().await;
    gone.abort();
    settle().await;
    gate.open();
    assert_eq!(said(vec![first, there]).await, ["not executed", "first 2"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_waiter_nothing_runs_until_someone_asks_again() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    upstream.next(Run::Refuse);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "not executed");
    settle().await;
    assert_eq!(upstream.runs(), 1);
}
