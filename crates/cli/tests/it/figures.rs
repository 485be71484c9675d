//! A load with faults in it, on each store that lasts: every figure agrees with what the test counted itself.

mod world;

use std::time::Duration;

use oncekey_core::Token;
use oncekey_store::{Resolution, Resolved, Store};
use oncekey_store_test::{Fault, Op, samples};
use tokio::task::JoinSet;
use world::{World, id, key_of, on_postgres, on_sqlite};

/// Keys of each part of the load.
const KEYS: u64 = 60;

#[tokio::test]
async fn every_figure_agrees_with_the_tests_own_count_on_sqlite() {
    let (directory, world) = on_sqlite().await;
    agrees(world).await;
    drop(directory);
}

#[tokio::test]
async fn every_figure_agrees_with_the_tests_own_count_on_postgresql() {
    agrees(on_postgres().await).await;
}

async fn agrees(mut world: World) {
    executions_and_replays(&mut world).await;
    waiters(&mut world).await;
    store_faults(&mut world).await;
    takeovers(&mut world).await;
    fenced_outcomes(&mut world).await;
    swept(&mut world).await;
    let book = world.booked();
    assert_eq!(world.figures(), book);

    // What the book doesn't have is seen.
    world.store.fail_next(Op::Claim, Fault::NotApplied);
    world.send("/orders", "unbooked", "answer").await;
    let figures = world.figures();
    assert_eq!(figures.get("oncekey_store_errors_total"), Some(&1), "{figures:?}");
    assert_eq!(figures.get("oncekey_requests_total /orders store_error"), Some(&1), "{figures:?}");
}

async fn executions_and_replays(world: &mut World) {
    let scripts = [
        ("answer", "executed", None),
        ("answer", "executed", None),
        ("busy", "failed", None),
        ("gateway", "unknown", None),
        ("cut", "unknown", Some("outcome-unknown")),
        ("refuse", "failed", Some("upstream-unreachable")),
    ];
    // All at once, and again: what was done is replayed, what failed runs again, what is unknown stays so.
    for round in 0..2 {
        let mut clients = JoinSet::new();
        for n in 0..KEYS {
            let (script, outcome, problem) = scripts[usize::try_from(n).expect("small") % scripts.len()];
            let (outcome, problem) = match (round, outcome) {
                (1, "executed") => ("replayed", None),
                (1, "unknown") => ("unknown", Some("outcome-unknown")),
                _ => (outcome, problem),
            };
            world.book.request("/orders", outcome, problem);
            clients.spawn(world.call("/orders", &key_of(n), script));
        }
        clients.join_all().await;
    }
    world.book.executions += KEYS + KEYS / 3;
    for n in 0..5 {
        assert_eq!(world.send_as("/orders", &key_of(n * 6), "answer", "{\"other\":1}").await, 409);
        world.book.request("/orders", "mismatch", Some("key-reused"));
        assert_eq!(world.send("/orders", "", "answer").await, 400);
        world.book.rejected("/orders", "key-invalid");
    }
}

async fn waiters(world: &mut World) {
    for n in 0..10 {
        let mut clients = JoinSet::new();
        for _ in 0..4 {
            clients.spawn(world.call("/orders", &format!("gated-{n}"), "gate"));
        }
        world.executing().await;
        world.waiting(3).await;
        world.open();
        assert!(clients.join_all().await.iter().all(|status| *status == 201));
        world.book.request("/orders", "executed", None);
        (0..3).for_each(|_| world.book.request("/orders", "waited", None));
        world.book.executions += 1;
        world.book.waits += 3;
    }
}

async fn store_faults(world: &mut World) {
    for (fault, code) in [(Fault::NotApplied, "store-unavailable"), (Fault::Corrupt, "record-unreadable")] {
        for n in 0..3 {
            world.fail(Op::Claim, fault.clone());
            world.send("/orders", &format!("{code}-{n}"), "answer").await;
            world.book.request("/orders", "store_error", Some(code));
        }
    }
    // Whoever meets one of these asks again with the same token.
    for _ in 0..10 {
        world.fail(Op::Claim, Fault::ReplyLost);
        world.fail(Op::Claim, Fault::RequestLost);
        world.fail(Op::Record, Fault::ReplyLost);
        world.fail(Op::Record, Fault::NotApplied);
    }
    let mut clients = JoinSet::new();
    for n in 0..KEYS {
        clients.spawn(world.call("/orders", &format!("faulty-{n}"), "answer"));
        world.book.request("/orders", "executed", None);
    }
    assert!(clients.join_all().await.iter().all(|status| *status == 201));
    world.book.executions += KEYS;
}

async fn takeovers(world: &mut World) {
    for n in 0..8 {
        let key = format!("taken-{n}");
        assert_eq!(world.send("/retried", &key, "cut").await, 504);
        world.book.request("/retried", "unknown", Some("outcome-unknown"));
        assert_eq!(world.send("/retried", &key, "answer").await, 201);
        world.book.request("/retried", "executed", None);
        world.book.takeovers += 1;
        world.book.executions += 2;
    }
}

/// Executions whose records an operator settles while they run.
async fn fenced_outcomes(world: &mut World) {
    for n in 0..5_u8 {
        let key = format!("fenced-{n}");
        let mut client = JoinSet::new();
        client.spawn(world.call("/orders", &key, "gate"));
        world.executing().await;
        let owner = world.store.read(id(&key)).await.expect("read").expect("claimed").record.owner;
        loop {
            // A heartbeat may come between.
            world.store.retire(owner).await.expect("retired");
            let verdict =
                Resolution::Completed { response: samples::response("settled"), token: Token::from_bytes([n; 16]) };
            if world.store.resolve(id(&key), verdict).await.expect("resolved") == Resolved::Done {
                break;
            }
        }
        world.open();
        client.join_all().await;
        // It gets the record's answer.
        world.book.request("/orders", "waited", None);
        world.book.fenced += 1;
        world.book.executions += 1;
    }
}

async fn swept(world: &mut World) {
    let stored: u64 = world.store.stats().await.expect("stats").records.values().sum();
    assert!(stored > 2 * KEYS);
    world.clock.advance(Duration::from_hours(31 * 24));
    let now = world.store.heartbeat(samples::owner(), Duration::from_secs(30)).await.expect("a heartbeat");
    oncekey_engine::sweep(&*world.engine.store(), now, 50).await.expect("swept");
    assert_eq!(world.store.stats().await.expect("stats").records.values().sum::<u64>(), 0);
    world.book.swept += stored;
}
