//! Replays from memory, and how replays are counted (R8).

use std::time::Duration;

use oncekey_engine::Settings;
use oncekey_store::{Purged, Store};
use oncekey_store_test::{Op, samples};

use crate::upstream::Upstream;
use crate::world::{World, say, settle};

#[tokio::test(start_paused = true)]
async fn a_replay_within_cache_for_does_not_ask_the_store() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(Settings::default()).await;
    engine.run(upstream.call("k")).await;
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
    let asked = world.store.calls(Op::Claim);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
    assert_eq!(world.store.calls(Op::Claim), asked);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
    assert_eq!(world.store.calls(Op::Claim), asked + 1);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
    assert_eq!(world.store.calls(Op::Claim), asked + 1, "what the store said is kept again");
}

#[tokio::test(start_paused = true)]
async fn without_the_cache_every_replay_asks_the_store() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node().await;
    engine.run(upstream.call("k")).await;
    let asked = world.store.calls(Op::Claim);
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
    assert_eq!(world.store.calls(Op::Claim), asked + 1);
}

#[tokio::test(start_paused = true)]
async fn a_purge_is_seen_at_once_where_it_is_told_and_within_cache_for_elsewhere() {
    let (world, upstream) = (World::new(), Upstream::new());
    let (here, there) = (world.node_with(Settings::default()).await, world.node_with(Settings::default()).await);
    here.run(upstream.call("k")).await;
    assert_eq!(say(&there.run(upstream.call("k")).await), "replay run 1");
    let id = samples::identity("acc-1", "k").id();
    assert_eq!(world.store.purge(id).await.expect("purged"), Purged::Done);
    here.forget(id);
    assert_eq!(say(&there.run(upstream.call("k")).await), "replay run 1");
    assert_eq!(say(&here.run(upstream.call("k")).await), "first 2");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(say(&there.run(upstream.call("k")).await), "replay run 2");
}

#[tokio::test(start_paused = true)]
async fn a_cached_record_is_not_replayed_past_its_expiry() {
    let (world, upstream) = (World::new(), Upstream::new());
    let settings = Settings { cache_for: Duration::from_mins(1), ..Settings::default() };
    let engine = world.node_with(settings).await;
    engine.run(upstream.call("k")).await;
    world.clock.advance(Duration::from_hours(48) - Duration::from_secs(2));
    assert_eq!(say(&engine.run(upstream.call("k")).await), "replay run 1");
    world.clock.advance(Duration::from_secs(2));
    assert_eq!(say(&engine.run(upstream.call("k")).await), "first 2");
}

#[tokio::test(start_paused = true)]
async fn what_the_store_said_before_a_pause_is_not_kept_after_it() {
    let (world, upstream) = (World::new(), Upstream::new());
    let (engine, other) = (world.node().await, world.node_with(Settings::default()).await);
    engine.run(upstream.call("k")).await;
    let gate = world.store.hold_after(Op::Claim);
    let late = crate::world::spawn(&other, upstream.call("k"));
    gate.reached().await;
    world.clock.advance(Duration::from_secs(2));
    gate.open();
    assert_eq!(crate::world::said(vec![late]).await, ["replay run 1"]);
    let asked = world.store.calls(Op::Claim);
    other.run(upstream.call("k")).await;
    assert_eq!(world.store.calls(Op::Claim), asked + 1);
}

#[tokio::test(start_paused = true)]
async fn replays_are_counted_in_batches() {
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(Settings::default()).await;
    for _ in 0..11 {
        engine.run(upstream.call("a")).await;
        engine.run(upstream.call("b")).await;
    }
    settle().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.found("a").await.expect("a record").record.replays, 10);
    assert_eq!(world.found("b").await.expect("a record").record.replays, 10);
    assert_eq!(world.store.calls(Op::CountReplays), 1);
}
