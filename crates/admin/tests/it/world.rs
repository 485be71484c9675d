//! A node with an admin listener on a memory store, a clock that stands still, and ways to put records into every state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use oncekey_admin::view::{Classes, Mismatching};
use oncekey_admin::{Access, AdminOptions, Node, Readiness, Recent, router};
use oncekey_core::record::{Lifetimes, Origin};
use oncekey_core::response::RecordedBody;
use oncekey_core::{
    Event, Fingerprint, Identity, Key, OwnerId, PromiseClass, Recipe, RecordId, RecordedResponse, Scope, Timestamp,
    Token,
};
use oncekey_store::{Claim, Claimed, ManualClock, MemoryStore, Outcome, Store, SystemClock};
use parking_lot::Mutex;
use tokio::sync::watch;
use tower::ServiceExt;

/// 2025-11-30T10:53:20Z.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_764_500_000_000_000);
pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const OWNER: OwnerId = OwnerId::from_bytes([0xab; 16]);

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) changed: Arc<Mutex<Vec<RecordId>>>,
    pub(crate) readiness: watch::Sender<Readiness>,
    pub(crate) trusts_clock: Arc<AtomicBool>,
    pub(crate) router: Router,
}

/// A node whose admin listener is on loopback, without a token.
pub(crate) async fn world() -> World {
    world_with(Access::Loopback).await
}

pub(crate) async fn world_with(access: Access) -> World {
    let clock = Arc::new(ManualClock::at(START));
    let store = Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<_>));
    store.heartbeat(OWNER, LEASE).await.unwrap();
    let changed = Arc::new(Mutex::new(Vec::new()));
    let trusts_clock = Arc::new(AtomicBool::new(true));
    let (readiness, options) =
        options(Arc::clone(&store) as Arc<_>, access, node(Arc::clone(&changed), Arc::clone(&trusts_clock)));
    World { clock, store, changed, readiness, trusts_clock, router: router(options) }
}

fn node(changed: Arc<Mutex<Vec<RecordId>>>, trusts_clock: Arc<AtomicBool>) -> Node {
    Node {
        changed: Box::new(move |id| changed.lock().push(id)),
        believes: {
            let trusts_clock = Arc::clone(&trusts_clock);
            Box::new(move |_| trusts_clock.load(Ordering::Relaxed))
        },
        trusts_clock: Box::new(move || trusts_clock.load(Ordering::Relaxed)),
        mismatches: Box::new(|limit| {
            let found = Mismatching { scope: "acc-1".to_owned(), count: 3, over: 1 };
            std::iter::repeat_n(found, limit.min(1)).collect()
        }),
    }
}

pub(crate) fn options(store: Arc<dyn Store>, access: Access, node: Node) -> (watch::Sender<Readiness>, AdminOptions) {
    let (readiness, ready) = watch::channel(Readiness::Ready);
    let routes = BTreeMap::from([
        ("/orders".to_owned(), PromiseClass::AtMostOnce),
        ("/refunds".to_owned(), PromiseClass::BestEffort),
    ]);
    let (_, classes) = watch::channel(Classes::new(PromiseClass::AtMostOnce, routes));
    let options = AdminOptions {
        store,
        store_timeout: Duration::from_secs(5),
        metrics: PrometheusBuilder::new().build_recorder().handle(),
        readiness: ready,
        classes,
        access: watch::channel(access).1,
        recent: Recent::new(Arc::new(SystemClock)),
        node,
        version: "1.2.3".to_owned(),
    };
    (readiness, options)
}

pub(crate) fn identity(scope: &str, key: &str) -> Identity {
    Identity {
        namespace: "default".parse().unwrap(),
        scope: Scope::new("header:X-Account-Id", scope).unwrap(),
        key: Key::from_decoded(key).unwrap(),
    }
}

pub(crate) fn claim(scope: &str, key: &str) -> Claim {
    let mut token = [0; 16];
    token[..key.len().min(16)].copy_from_slice(&key.as_bytes()[..key.len().min(16)]);
    Claim {
        identity: identity(scope, key),
        token: Token::from_bytes(token),
        owner: OWNER,
        fingerprint: Fingerprint::from_parts([0xcd; 32], Recipe::default()),
        origin: Origin { route: "/orders".to_owned(), method: "POST".to_owned(), path: "/orders".to_owned() },
        lifetimes: Lifetimes {
            run: Duration::from_secs(630),
            ttl: Duration::from_hours(48),
            unknown_ttl: Duration::from_hours(720),
        },
        replaces: None,
    }
}

pub(crate) fn response(status: u16, headers: &[(&'static str, &'static str)], body: RecordedBody) -> RecordedResponse {
    let mut lines = HeaderMap::new();
    for (name, value) in headers {
        lines.append(*name, HeaderValue::from_static(value));
    }
    RecordedResponse {
        status: StatusCode::from_u16(status).unwrap(),
        headers: lines,
        body,
        trailers: HeaderMap::new(),
        trace: None,
    }
}

impl World {
    pub(crate) async fn processing(&self, scope: &str, key: &str) -> RecordId {
        let claimed = self.store.claim(claim(scope, key)).await.unwrap();
        assert!(matches!(claimed, Claimed::Granted { .. }));
        identity(scope, key).id()
    }

    pub(crate) async fn ended(&self, key: &str, event: Event, response: Option<RecordedResponse>) -> RecordId {
        let id = self.processing("acc-1", key).await;
        let outcome = Outcome { event, response: response.map(Arc::new) };
        self.store.record(id, claim("acc-1", key).token, outcome).await.unwrap();
        id
    }

    pub(crate) async fn completed(&self, key: &str) -> RecordId {
        let body = RecordedBody::Stored(Bytes::from_static(b"{\"order_id\":1}"));
        let headers = [("content-type", "application/json"), ("x-a", "1"), ("x-a", "2")];
        self.ended(key, Event::Complete, Some(response(201, &headers, body))).await
    }

    pub(crate) async fn unknown(&self, key: &str) -> RecordId {
        self.ended(key, Event::WriteOff, None).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "").await
    }

    /// Sends a request as a local program would.
    pub(crate) async fn send(&self, method: Method, path: &str, body: &str) -> Answer {
        let request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:9464");
        let request = request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_owned()));
        ask(&self.router, request.unwrap()).await
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the answer is JSON")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The sentence that tells an operator what to do.
    pub(crate) fn detail(&self) -> String {
        let json = self.json();
        assert_eq!(json["status"], self.status);
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        json["detail"].as_str().expect("a refusal has a detail").to_owned()
    }
}

pub(crate) async fn ask(router: &Router, request: Request<Body>) -> Answer {
    let (parts, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    Answer { status: parts.status.as_u16(), headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
}
