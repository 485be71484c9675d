//! Calls that are let through while the store can't be reached (D1, D2).

use std::time::Duration;

use oncekey_core::Standing;
use oncekey_core::policy::Verdict;
use oncekey_engine::Settings;
use oncekey_store_test::{Fault, Gate, Op};
use tokio::time::Instant;

use crate::upstream::{Run, Upstream};
use crate::world::{World, said, say, settings, settle, spawn};

fn open() -> Gate {
    let gate = Gate::default();
    gate.open();
    gate
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_fails_lets_the_call_through_and_leaves_no_record() {
    for fault in [Fault::NotApplied, Fault::RequestLost] {
        let (world, upstream) = (World::new(), Upstream::new());
        let engine = world.node().await;
        world.store.fail_always(Op::Claim, fault);
        assert_eq!(say(&engine.run(upstream.open_call("k", &open())).await), "unguarded 1");
        assert_eq!(say(&engine.run(upstream.call("k")).await), "store unavailable", "the control: it is closed");
        assert_eq!((upstream.runs(), upstream.attempts().len()), (1, 0), "not under a claim");
        world.store.heal(Op::Claim);
        settle().await;
        assert_eq!(world.stands("k").await, Standing::Absent);
        assert_eq!(say(&engine.run(upstream.open_call("k", &open())).await), "first 2", "guarded again");
    }
}

/// The claim got through, so it is the call's own, and still it isn't executed under it as well.
#[tokio::test(start_paused = true)]
async fn a_claim_that_may_have_got_through_is_released_and_the_call_let_through_once() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    world.store.fail_always(Op::Claim, Fault::ReplyLost);
    let asked = Instant::now();
    assert_eq!(say(&engine.run(upstream.open_call("k", &open())).await), "unguarded 1");
    assert!(asked.elapsed() <= Duration::from_secs(5));
    world.store.heal(Op::Claim);
    settle().await;
    assert_eq!((upstream.runs(), upstream.attempts().len()), (1, 0));
    assert_eq!(world.stands("k").await, Standing::Failed, "released: a retry executes, as it would without a record");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_hangs_lets_the_call_through_after_store_timeout_and_is_released() {
    for after in [false, true] {
        let (world, upstream) = (World::new(), Upstream::new());
        let engine = world.node().await;
        let gate = if after { world.store.hold_after(Op::Claim) } else { world.store.hold_before(Op::Claim) };
        let asked = Instant::now();
        assert_eq!(say(&engine.run(upstream.open_call("k", &open())).await), "unguarded 1");
        assert_eq!(asked.elapsed().as_secs(), 5);
        gate.open();
        settle().await;
        assert_eq!(world.stands("k").await, Standing::Failed);
        assert_eq!((upstream.runs(), upstream.attempts().len()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn while_one_call_is_let_through_no_other_of_this_process_is() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    world.store.fail_always(Op::Claim, Fault::NotApplied);
    let gate = Gate::default();
    let first = spawn(&engine, upstream.open_call("k", &gate));
    settle().await;
    let others = (0..3).map(|_| spawn(&engine, upstream.open_call("k", &gate))).collect();
    settle().await;
    assert_eq!(upstream.runs(), 1);
    gate.open();
    assert_eq!(said(vec![first]).await, ["unguarded 1"]);
    assert_eq!(said(others).await, ["in progress"; 3]);
    assert_eq!(upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_known_of_a_record_is_never_passed_by() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    world.store.fail_next(Op::Claim, Fault::Corrupt);
    assert_eq!(say(&engine.run(upstream.open_call("k", &open())).await), "unreadable");
    assert_eq!(upstream.runs(), 0);

    // It is seen to run on another node, and the store goes away when that has ended.
    let face = world.second_face();
    let away = world.node_on(face.clone(), settings()).await;
    let running = upstream.held(Run::Refuse);
    let elsewhere = spawn(&engine, upstream.call("k"));
    settle().await;
    let duplicate = spawn(&away, upstream.open_call("k", &open()));
    settle().await;
    face.fail_always(Op::Claim, Fault::NotApplied);
    running.open();
    assert_eq!(said(vec![elsewhere, duplicate]).await, ["not executed", "store unavailable"]);
    assert_eq!(upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_known_of_a_record_before_there_was_a_place_to_execute_is_not_passed_by_either() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let face = world.second_face();
    let full = world.node_on(face.clone(), Settings { max_inflight: 1, ..settings() }).await;
    let running = upstream.held(Run::Answer(Verdict::Completed));
    let elsewhere = spawn(&engine, upstream.call("k"));
    running.reached().await;
    let busy = upstream.held(Run::Answer(Verdict::Completed));
    let other = spawn(&full, upstream.call("other"));
    busy.reached().await;
    let duplicate = spawn(&full, upstream.open_call("k", &open()));
    settle().await;
    face.fail_always(Op::Claim, Fault::NotApplied);
    busy.open();
    assert_eq!(said(vec![other, duplicate]).await, ["first 2", "store unavailable"]);
    running.open();
    assert_eq!(said(vec![elsewhere]).await, ["first 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_gone_by_then_gets_nothing_executed() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let gate = world.store.hold_before(Op::Claim);
    let call = spawn(&engine, upstream.open_call("k", &open()));
    settle().await;
    call.abort();
    tokio::time::sleep(Duration::from_secs(6)).await;
    gate.open();
    settle().await;
    assert_eq!((upstream.runs(), world.stands("k").await), (0, Standing::Failed));
}

/// No record has its answer: told to come back, its caller would have it executed again.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_let_through_is_answered_when_it_ends_however_long_that_takes() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    world.store.fail_always(Op::Claim, Fault::NotApplied);
    let gate = Gate::default();
    let first = spawn(&engine, upstream.open_call("k", &gate));
    tokio::time::sleep(Duration::from_mins(9)).await;
    assert_eq!(say(&engine.run(upstream.open_call("k", &gate)).await), "in progress");
    gate.open();
    assert_eq!(said(vec![first]).await, ["unguarded 1"]);

    let never = spawn(&engine, upstream.open_call("k", &Gate::default()));
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(said(vec![never]).await, ["unguarded, unknown"]);
}
