//! Records expire by the store's clock, unless it runs ahead; and they are swept (E9, D5).

use std::time::Duration;

use oncekey_core::Standing;
use oncekey_engine::Settings;
use oncekey_store_test::{Fault, Op};

use crate::upstream::{Run, Upstream};
use crate::world::{World, say, settings};

const TTL: Duration = Duration::from_hours(48);

fn unswept() -> Settings {
    Settings { sweep_every: Duration::from_hours(24 * 365), ..settings() }
}

#[tokio::test(start_paused = true)]
async fn an_expired_record_counts_as_absent_at_once_for_any_request() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(unswept()).await;
    engine.run(upstream.call("k")).await;
    world.clock.advance(TTL.saturating_sub(Duration::from_micros(1)));
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
    world.clock.advance(Duration::from_micros(1));
    assert_eq!(say(&engine.run(upstream.other_call("k")).await), "first 2");
    assert_eq!(upstream.attempts(), [1, 1], "it starts afresh");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_record_is_kept_for_its_own_time() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(unswept()).await;
    upstream.next(Run::Lose);
    engine.run(upstream.call("k")).await;
    world.clock.advance(TTL * 2);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "unknown");
    world.clock.advance(Duration::from_hours(30 * 24));
    assert_eq!(say(&engine.run(upstream.call("k")).await), "first 2");
}

#[tokio::test(start_paused = true)]
async fn while_the_stores_clock_runs_ahead_nothing_expires_and_nothing_is_swept() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    engine.run(upstream.call("k")).await;
    world.clock.jump(TTL * 2);
    let sweeps = world.store.calls(Op::Sweep);
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(world.store.calls(Op::Sweep), sweeps);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
    assert_eq!(upstream.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_store_that_is_noticed_late_does_not_end_expiry_for_good() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(unswept()).await;
    engine.run(upstream.call("k")).await;
    // The node stands still between the store's answer and its noticing.
    let gate = world.store.hold_after(Op::Claim);
    let late = crate::world::spawn(&engine, upstream.call("k"));
    gate.reached().await;
    world.clock.advance(Duration::from_mins(10));
    gate.open();
    assert_eq!(crate::world::said(vec![late]).await, ["replay run 1"]);
    world.clock.advance(TTL);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "first 2");
}

#[tokio::test(start_paused = true)]
async fn expired_records_are_swept_in_steps_and_a_failed_sweep_goes_on_next_time() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(Settings { sweep_batch: 2, ..settings() }).await;
    for key in ["a", "b", "c", "d", "e"] {
        engine.run(upstream.call(key)).await;
    }
    world.clock.advance(TTL);
    world.store.fail_next(Op::Sweep, Fault::NotApplied);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(world.found("a").await.is_some());
    tokio::time::sleep(Duration::from_mins(1)).await;
    for key in ["a", "b", "c", "d", "e"] {
        assert!(world.found(key).await.is_none(), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_claims_of_a_living_node_never_lapse_before_their_deadline() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    upstream.next(Run::Hang);
    let _first = crate::world::spawn(&engine, upstream.call("k"));
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        world.clock.advance(Duration::from_secs(10));
        assert_eq!(world.stands("k").await, Standing::Processing);
    }
}

#[tokio::test(start_paused = true)]
async fn one_heartbeat_that_hangs_does_not_cost_the_lease() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(unswept()).await;
    upstream.next(Run::Hang);
    let _first = crate::world::spawn(&engine, upstream.call("k"));
    crate::world::settle().await;
    world.store.hold_before(Op::Heartbeat);
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        world.clock.advance(Duration::from_secs(5));
        assert_eq!(world.stands("k").await, Standing::Processing);
    }
}
