//! Answers that reach the first caller as they arrive (R7).

use oncekey_core::Standing;
use oncekey_store_test::{Gate, Op};

use crate::upstream::{Run, Upstream};
use crate::world::{World, said, say, settle, spawn};

#[tokio::test(start_paused = true)]
async fn a_stream_is_recorded_before_its_first_answer_is_given() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let rest = Gate::default();
    upstream.next(Run::Stream(rest.clone()));
    let recording = world.store.hold_before(Op::Record);
    let first = spawn(&engine, upstream.call("k"));
    recording.reached().await;
    settle().await;
    assert!(!first.is_finished());
    recording.open();
    assert_eq!(said(vec![first]).await, ["first 1"]);
    assert_eq!(world.stands("k").await, Standing::Completed);
    assert_eq!(upstream.ended(), 0, "the rest is still on its way");
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay not stored");
    rest.open();
    settle().await;
    assert_eq!((upstream.runs(), upstream.ended()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_stream_is_read_to_its_end_without_its_caller() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    let rest = Gate::default();
    upstream.next(Run::Stream(rest.clone()));
    let recording = world.store.hold_before(Op::Record);
    let first = spawn(&engine, upstream.call("k"));
    recording.reached().await;
    first.abort();
    settle().await;
    recording.open();
    rest.reached().await;
    rest.open();
    settle().await;
    assert_eq!(upstream.ended(), 1);
}
