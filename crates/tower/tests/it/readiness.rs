//! The tower contract: when the inner service is polled ready, and what its not being ready means.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use oncekey_core::State;
use oncekey_store::{ManualClock, MemoryStore, Purged, Store};
use oncekey_store_test::{FaultyStore, START};
use oncekey_tower::{BodyError, Idempotency, RequestBody};
use parking_lot::Mutex;
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt};

use crate::bodies::{TestBody, fed};
use crate::harness::*;

async fn guarded<S>(inner: S) -> (Idempotency<S>, Arc<FaultyStore>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(START));
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(clock.clone()))));
    let (layer, _) = Setup::default().layer(store.clone(), clock.clone()).await;
    (layer.layer(inner), store, clock)
}

#[tokio::test(start_paused = true)]
async fn a_service_with_one_place_serves_keyed_requests() {
    let (mut service, ..) = guarded(ConcurrencyLimit::new(Upstream::counting(), 1)).await;
    for run in 1..=3 {
        let answer = call(&mut service, order(&format!("k-{run}"))).await.await.unwrap();
        assert_eq!(whole(answer).await.body(), &format!("run {run}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_still_being_sent_takes_no_place() {
    let (mut service, ..) = guarded(ConcurrencyLimit::new(Upstream::counting(), 1)).await;
    let (_feed, body) = fed();
    let slow = call(&mut service, post("slow").body(body).unwrap()).await;
    let slow = spawn(async move { slow.await.map(|answer| answer.status()) });
    settle().await;
    let answer = call(&mut service, order("k")).await.await.unwrap();
    assert_eq!(answer.status(), 201);
    assert!(!slow.is_finished());
}

/// What a service says when it is asked whether it is ready.
#[derive(Clone, Copy)]
enum Says {
    Ready,
    NotYet,
    Never,
}

/// A service whose readiness the test turns.
#[derive(Clone)]
struct Turned(Arc<Mutex<(Says, Vec<Waker>)>>, Upstream);

impl Turned {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((Says::Ready, Vec::new()))), Upstream::counting())
    }

    fn turn(&self, says: Says) {
        let mut state = self.0.lock();
        state.0 = says;
        state.1.drain(..).for_each(Waker::wake);
    }
}

impl Service<Request<RequestBody>> for Turned {
    type Response = Response<TestBody>;
    type Error = BodyError;
    type Future = BoxFuture<'static, Answered>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let mut state = self.0.lock();
        match state.0 {
            Says::Ready => self.1.poll_ready(cx),
            Says::Never => Poll::Ready(Err("closed".into())),
            Says::NotYet => {
                state.1.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        self.1.call(request)
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_to_get_ready_has_executed_nothing() {
    let inner = Turned::new();
    let (mut service, ..) = guarded(inner.clone()).await;
    let answer = call(&mut service, order("k")).await;
    inner.turn(Says::Never);
    assert_eq!(problem(&answer.await.unwrap()), Some("upstream-unreachable"));
    assert_eq!(
        ServiceExt::<Request<TestBody>>::ready(&mut service).await.err().unwrap().to_string(),
        "closed",
        "the layer is as ready as its service"
    );
    inner.turn(Says::Ready);
    let retry = service.oneshot(order("k")).await.unwrap();
    assert_eq!((retry.status().as_u16(), replayed(&retry)), (201, false));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_does_not_get_ready_in_time_has_executed_nothing() {
    let inner = Turned::new();
    let (mut service, store, _) = guarded(inner.clone()).await;
    let answer = call(&mut service, order("k")).await;
    inner.turn(Says::NotYet);
    assert!(matches!(problem(&answer.await.unwrap()), Some("in-progress" | "upstream-unreachable")));
    tokio::time::sleep(MINUTE).await;
    assert_eq!(store.read(id("k")).await.unwrap().unwrap().record.state, State::Failed);
    inner.turn(Says::Ready);
    let retry = whole(service.oneshot(order("k")).await.unwrap()).await;
    assert_eq!((retry.body().as_ref(), replayed(&retry)), (&b"run 1"[..], false));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_lost_while_the_service_was_not_ready_sends_nothing() {
    let inner = Turned::new();
    let (mut service, store, clock) = guarded(inner.clone()).await;
    let answer = spawn(call(&mut service, order("k")).await);
    inner.turn(Says::NotYet);
    settle().await;
    clock.advance(MINUTE);
    assert_eq!(store.purge(id("k")).await.unwrap(), Purged::Done);
    inner.turn(Says::Ready);
    assert_eq!(problem(&answer.await.unwrap().unwrap()), Some("upstream-unreachable"));
    assert_eq!(inner.1.runs(), 0);
}
