//! A store that never answers: the listener does.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use http::{Method, Request};
use oncekey_admin::{Access, Node, router};
use oncekey_core::{OwnerId, RecordId, Timestamp, Token};
use oncekey_store::{
    Claim, Claimed, Cursor, Filter, Found, Outcome, Page, Promise, Purged, Recorded, Resolution, Resolved, Stats,
    Store, StoreError, Swept,
};

use crate::world::{ask, options};

struct StuckStore;

async fn stuck<T>() -> Result<T, StoreError> {
    std::future::pending().await
}

#[async_trait]
impl Store for StuckStore {
    async fn claim(&self, _: Claim) -> Result<Claimed, StoreError> {
        stuck().await
    }
    async fn record(&self, _: RecordId, _: Token, _: Outcome) -> Result<Recorded, StoreError> {
        stuck().await
    }
    async fn read(&self, _: RecordId) -> Result<Option<Found>, StoreError> {
        stuck().await
    }
    async fn peek(&self, _: &[RecordId]) -> Result<Vec<Found>, StoreError> {
        stuck().await
    }
    async fn heartbeat(&self, _: OwnerId, _: Duration) -> Result<Timestamp, StoreError> {
        stuck().await
    }
    async fn retire(&self, _: OwnerId) -> Result<(), StoreError> {
        stuck().await
    }
    async fn sweep(&self, _: Timestamp, _: u32) -> Result<Swept, StoreError> {
        stuck().await
    }
    async fn count_replays(&self, _: &[(RecordId, u32)]) -> Result<(), StoreError> {
        stuck().await
    }
    async fn list(&self, _: &Filter, _: Option<Cursor>, _: u32) -> Result<Page, StoreError> {
        stuck().await
    }
    async fn resolve(&self, _: RecordId, _: Resolution) -> Result<Resolved, StoreError> {
        stuck().await
    }
    async fn purge(&self, _: RecordId) -> Result<Purged, StoreError> {
        stuck().await
    }
    async fn stats(&self) -> Result<Stats, StoreError> {
        stuck().await
    }
    async fn promise(&self) -> Result<Promise, StoreError> {
        stuck().await
    }
    fn describe(&self) -> String {
        "stuck".to_owned()
    }
}

fn listener() -> axum::Router {
    let node = Node { changed: Box::new(|_| {}), trusts_clock: Box::new(|| true) };
    router(options(Arc::new(StuckStore), Access::Loopback, node).1)
}

fn request(method: &Method, path: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    request.header("content-type", "application/json").body(Body::from(r#"{"as":"failed"}"#)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn calls_that_need_the_store_are_503_and_the_others_are_not() {
    let router = listener();
    let id = "00000000-0000-8000-8000-000000000000";
    let cases = [
        (Method::GET, "/healthz".to_owned(), 200),
        (Method::GET, "/readyz".to_owned(), 200),
        (Method::GET, "/readyz?store".to_owned(), 503),
        (Method::GET, "/metrics".to_owned(), 200),
        (Method::GET, "/api/records".to_owned(), 503),
        (Method::GET, "/api/stats".to_owned(), 503),
        (Method::GET, format!("/api/records/{id}"), 503),
        (Method::DELETE, format!("/api/records/{id}"), 503),
        (Method::POST, format!("/api/records/{id}/resolve"), 503),
        (Method::POST, "/api/sweep".to_owned(), 503),
    ];
    for (method, path, status) in cases {
        assert_eq!(ask(&router, request(&method, &path)).await.status, status, "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crowd_of_calls_that_wait_for_the_store_does_not_hold_up_health() {
    let router = listener();
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let router = router.clone();
        crowd.spawn(async move { ask(&router, request(&Method::GET, "/api/stats")).await.status });
    }
    assert_eq!(ask(&router, request(&Method::GET, "/healthz")).await.status, 200);
    assert!(crowd.join_all().await.iter().all(|status| *status == 503));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_given_up() {
    let router = listener();
    let (parts, _) = request(&Method::POST, "/api/records/00000000-0000-8000-8000-000000000000/resolve").into_parts();
    let endless = Body::new(http_body_util::StreamBody::new(Never));
    assert_eq!(ask(&router, Request::from_parts(parts, endless)).await.status, 503);
}

struct Never;

impl futures_util::Stream for Never {
    type Item = Result<http_body::Frame<bytes::Bytes>, std::convert::Infallible>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Pending
    }
}
