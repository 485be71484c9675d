//! The counters: there from the start, and each request under exactly one outcome (P2, the surface's metrics).

use std::collections::BTreeMap;

use http::{Request, Response};
use metrics_util::debugging::{DebugValue, Snapshotter};
use oncekey_core::problem::Code;
use oncekey_engine::NotExecuted;
use oncekey_store::{ManualClock, MemoryStore};
use oncekey_store_test::{Fault, FaultyStore, Op, START};
use std::sync::Arc;
use std::time::Duration;

use crate::bodies::{Untouched, fed, full};
use crate::harness::*;

const OUTCOMES: [&str; 21] = [
    "executed",
    "replayed",
    "waited",
    "mismatch",
    "in_progress",
    "unknown",
    "failed",
    "rejected",
    "no_key",
    "unguarded",
    "store_error",
    // Of what isn't in this version.
    "accepted",
    "shadow_executed",
    "shadow_replayed",
    "shadow_waited",
    "shadow_mismatch",
    "shadow_in_progress",
    "shadow_unknown",
    "shadow_failed",
    "shadow_rejected",
    "shadow_store_error",
];

#[tokio::test]
async fn all_counters_of_all_routes_are_there_at_zero() {
    let clock = Arc::new(ManualClock::at(START));
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(clock.clone()))));
    let setup = Setup { routes: vec![orders(), governed("/refunds/{id}", |_| {})], ..Setup::default() };
    let (_layer, metrics) = setup.layer(store, clock).await;
    let routes = ["/orders", "/refunds/{id}"];
    let cross = |labels: &[&str]| -> BTreeMap<_, _> {
        let pairs = routes.iter().flat_map(|route| labels.iter().map(move |label| (*route, *label)));
        pairs.map(|(route, label)| ((route.to_owned(), label.to_owned()), 0)).collect()
    };
    let codes = Code::ALL.map(Code::as_str);
    let mut snapshot = counters_of(&metrics);
    assert_eq!(snapshot.remove("oncekey_problems_total").unwrap(), cross(&codes));
    let mut outcomes = cross(&OUTCOMES);
    outcomes.insert(("-".to_owned(), "unguarded".to_owned()), 0);
    assert_eq!(snapshot.remove("oncekey_requests_total").unwrap(), outcomes);
    assert!(snapshot.is_empty());
}

/// What was timed since the last look, by the histogram's name, in seconds.
fn histograms_of(metrics: &Snapshotter) -> BTreeMap<String, Vec<f64>> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (key, _, _, value) in metrics.snapshot().into_vec() {
        if let DebugValue::Histogram(values) = value {
            all.entry(key.key().name().to_owned()).or_default().extend(values.into_iter().map(f64::from));
        }
    }
    all
}

/// One request, and what it is counted as.
async fn assert_counts<B>(world: &World, request: Request<B>, outcome: &str, code: Option<&str>)
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<oncekey_tower::BodyError>,
{
    world.counted();
    world.send(request).await;
    let (requests, problems) = world.counted_both();
    let route = if outcome == "unguarded" { "-" } else { "/orders" };
    let one = |label: &str| BTreeMap::from([((route.to_owned(), label.to_owned()), 1)]);
    assert_eq!(requests, one(outcome));
    assert_eq!(problems, code.map(one).unwrap_or_default(), "{outcome}");
}

#[tokio::test(start_paused = true)]
async fn each_request_counts_under_one_outcome() {
    let world = Setup::guarded(|guard| guard.max_request = 100)
        .start(Upstream::new(|number| async move {
            let status = match number {
                0 => 201,
                1 => return Err(NotExecuted::because("refused").into()),
                2 => return Err("reset".into()),
                3 => 429,
                4 => 502,
                _ => 200,
            };
            Ok(Response::builder().status(status).body(full("")).unwrap())
        }))
        .await;
    assert_counts(&world, order("k"), "executed", None).await;
    assert_counts(&world, order("k"), "replayed", None).await;
    assert_counts(&world, post("k").body(full("")).unwrap(), "mismatch", Some("key-reused")).await;
    assert_counts(&world, order("unsent"), "failed", Some("upstream-unreachable")).await;
    assert_counts(&world, order("reset"), "unknown", Some("outcome-unknown")).await;
    assert_counts(&world, order("reset"), "unknown", Some("outcome-unknown")).await;
    assert_counts(&world, order("busy"), "failed", None).await;
    assert_counts(&world, order("gateway"), "unknown", None).await;
    assert_counts(&world, post("k").body(Untouched(101)).unwrap(), "rejected", Some("body-too-large")).await;
    assert_counts(&world, post("a b").body(full("")).unwrap(), "rejected", Some("key-invalid")).await;
    assert_counts(&world, Request::post("/orders").body(full("")).unwrap(), "no_key", None).await;
    assert_counts(&world, post("k").method("GET").body(full("")).unwrap(), "unguarded", None).await;
    assert_counts(&world, post("k").uri("/else").body(full("")).unwrap(), "unguarded", None).await;
    world.store.fail_next(Op::Claim, Fault::NotApplied);
    assert_counts(&world, order("store"), "store_error", Some("store-unavailable")).await;
    world.store.fail_next(Op::Claim, Fault::Corrupt);
    assert_counts(&world, order("store"), "store_error", Some("record-unreadable")).await;
}

/// Neither keys nor scopes nor paths make series (P2).
#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_keys_and_scopes_leave_no_series_behind() {
    let setup = Setup { routes: vec![governed("/orders/{id}", |_| {})], ..Setup::default() };
    let world = setup.start(Upstream::counting()).await;
    let series = || world.metrics.snapshot().into_vec().len();
    let before = series();
    for n in 0..100_000 {
        let request = Request::post(format!("/orders/{n}"))
            .header("Idempotency-Key", format!("key-{n}"))
            .header("X-Account-Id", format!("acc-{n}"))
            .body(full("{}"))
            .unwrap();
        assert_eq!(world.send(request).await.status(), 201);
    }
    assert_eq!(series(), before);
}

#[tokio::test(start_paused = true)]
async fn what_oncekey_adds_is_neither_executing_nor_waiting() {
    let world = World::of(Upstream::new(|_| async {
        tokio::time::sleep(MINUTE / 2).await;
        Ok(created("x"))
    }))
    .await;
    let gate = world.store.hold_before(Op::Claim);
    let first = world.spawn(order("k"));
    gate.reached().await;
    tokio::time::advance(Duration::from_secs(2)).await;
    gate.open();
    settle().await;
    let duplicate = world.spawn(order("k"));
    assert_eq!(duplicate.await.unwrap().status(), 202);
    assert_eq!(first.await.unwrap().status(), 201);
    let all = histograms_of(&world.metrics);
    assert_eq!(all["oncekey_execution_seconds"], [30.0]);
    assert_eq!(all["oncekey_wait_seconds"], [1.0]);
    assert_eq!(
        all["oncekey_overhead_seconds"],
        [0.0, 2.0],
        "the duplicate's, then that of the first, whose claim took long"
    );
}

#[tokio::test(start_paused = true)]
async fn clients_that_leave_count_once_too() {
    let world = World::of(Upstream::new(|_| std::future::pending())).await;
    let (_feed, body) = fed();
    let leaving =
        [world.spawn(post("half-sent").body(body).unwrap()), world.spawn(order("k")), world.spawn(order("k"))];
    settle().await;
    leaving.iter().for_each(tokio::task::JoinHandle::abort);
    settle().await;
    let label = |outcome: &str| ("/orders".to_owned(), outcome.to_owned());
    assert_eq!(world.counted(), BTreeMap::from([(label("rejected"), 1), (label("in_progress"), 2)]));
}

#[tokio::test(start_paused = true)]
async fn duplicates_count_as_waited_or_in_progress() {
    let gate = Arc::new(tokio::sync::Notify::new());
    let opens = Arc::clone(&gate);
    let world = Setup::governed(|policy| policy.max_waiters = 2).start(Upstream::new(move |_| {
        let gate = Arc::clone(&opens);
        async move {
            gate.notified().await;
            Ok(created(""))
        }
    }));
    let world = world.await;
    let clients: Vec<_> = (0..4).map(|_| world.spawn(order("k"))).collect();
    settle().await;
    gate.notify_one();
    for client in clients {
        client.await.unwrap();
    }
    let label = |outcome: &str| ("/orders".to_owned(), outcome.to_owned());
    let expected = [(label("executed"), 1), (label("waited"), 2), (label("in_progress"), 1)];
    assert_eq!(world.counted(), BTreeMap::from(expected));
}
