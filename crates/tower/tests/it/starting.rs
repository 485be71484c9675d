//! Starting inside a program and shutting down: what runs, what ends, and what becomes of late requests.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use oncekey_core::State;
use oncekey_store::{MemoryStore, Store, SystemClock};
use oncekey_tower::{Guard, Idempotency, Oncekey, Options, Route, RouteError, StartError};
use tokio::sync::Notify;
use tower::{Layer, ServiceExt};

use crate::bodies::full;
use crate::harness::*;

fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock)))
}

async fn send(service: &Idempotency<Upstream>, key: &str) -> http::Response<bytes::Bytes> {
    whole(service.clone().oneshot(order(key)).await.unwrap()).await
}

#[tokio::test]
async fn what_is_started_guards_every_path_and_its_layers_share_everything() {
    let oncekey = Oncekey::start(store(), Options::default()).await.unwrap();
    let upstream = Upstream::counting();
    let (one, other) = (oncekey.layer().layer(upstream.clone()), oncekey.layer().layer(upstream));
    assert_eq!(send(&one, "k").await.body(), "run 1");
    let replay = send(&other, "k").await;
    assert_eq!((replayed(&replay), &replay.body()[..]), (true, &b"run 1"[..]));
    assert_eq!(oncekey.shutdown().await, 0);
}

#[tokio::test]
async fn routes_that_can_not_be_used_start_nothing() {
    let twice = Options { routes: vec![Route::at("/orders"), Route::at("/orders")], ..Options::default() };
    let error = Oncekey::start(store(), twice).await.err().unwrap();
    assert!(matches!(error, StartError::Routes(RouteError::Overlap(Method::POST, _))), "{error}");
}

#[tokio::test]
async fn a_route_is_on_its_path_and_bears_its_name() {
    let guard = Guard { key_required: true, ..Guard::default() };
    let options = Options { routes: vec![Route { guard, ..Route::at("/orders") }], ..Options::default() };
    let store = store();
    let oncekey = Oncekey::start(store.clone(), options).await.unwrap();
    let service = oncekey.layer().layer(Upstream::counting());
    let without = http::Request::post("/orders").body(full("")).unwrap();
    assert_eq!(problem(&service.clone().oneshot(without).await.unwrap()), Some("key-missing"));
    send(&service, "k").await;
    assert_eq!(store.read(id("k")).await.unwrap().unwrap().record.origin.route, "/orders");
    oncekey.shutdown().await;
}

/// The upstream answers when the test says so, if ever.
fn waiting() -> (Arc<Notify>, Upstream) {
    let gate = Arc::new(Notify::new());
    let opens = Arc::clone(&gate);
    let upstream = Upstream::new(move |_| {
        let gate = Arc::clone(&opens);
        async move {
            gate.notified().await;
            Ok(created("done"))
        }
    });
    (gate, upstream)
}

#[tokio::test]
async fn a_shutdown_waits_for_what_executes_and_then_nothing_runs_any_more() {
    let store = store();
    let oncekey = Oncekey::start(store.clone(), Options::default()).await.unwrap();
    let (gate, upstream) = waiting();
    let service = oncekey.layer().layer(upstream);
    let first = spawn(service.clone().oneshot(order("k")));
    while store.read(id("k")).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let mut shutdown = Box::pin(oncekey.shutdown());
    assert!(futures_util::poll!(&mut shutdown).is_pending(), "it still executes");
    gate.notify_one();
    assert_eq!(shutdown.await, 0);
    assert_eq!(first.await.unwrap().unwrap().status(), 201);
    let found = store.read(id("k")).await.unwrap().unwrap();
    assert_eq!(
        (found.record.state, found.owner_alive),
        (State::Completed, false),
        "recorded, and no heartbeat after it"
    );

    assert_eq!(problem(&send(&service, "late").await), Some("overloaded"));
    assert!(store.read(id("late")).await.unwrap().is_none(), "nothing is claimed");
    assert!(replayed(&send(&service, "k").await), "what is recorded is answered");
    assert_eq!(oncekey.shutdown().await, 0, "may be repeated");
}

#[tokio::test]
async fn a_shutdown_cuts_what_takes_longer_than_the_drain_time() {
    let store = store();
    let options = Options { drain: Duration::ZERO, ..Options::default() };
    let oncekey = Oncekey::start(store.clone(), options).await.unwrap();
    let (_gate, upstream) = waiting();
    let service = oncekey.layer().layer(upstream);
    let first = spawn(service.clone().oneshot(order("k")));
    while store.read(id("k")).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(oncekey.shutdown().await, 1);
    assert_eq!(problem(&first.await.unwrap().unwrap()), Some("outcome-unknown"));
    assert_eq!(store.read(id("k")).await.unwrap().unwrap().record.state, State::Unknown);
}

#[tokio::test]
async fn a_handle_that_is_dropped_leaves_its_layers_at_work() {
    let oncekey = Oncekey::start(store(), Options::default()).await.unwrap();
    let service = oncekey.layer().layer(Upstream::counting());
    drop(oncekey);
    assert_eq!(send(&service, "k").await.body(), "run 1");
    assert!(replayed(&send(&service, "k").await));
}
