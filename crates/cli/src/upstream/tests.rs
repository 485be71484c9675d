//! The upstream against scripted servers: what counts as not executed, as broken, as whole; what goes over the wire.

mod answers;
mod connections;
mod h2_answers;
mod h2_connections;
mod h2_proofs;
mod h2_requests;
mod h2_streams;
mod requests;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::BodyExt;
use oncekey_core::policy::Policy;
use oncekey_core::record::Origin;
use oncekey_core::{Fingerprint, Identity, Key, Namespace, Recipe, Scope, Timestamp};
use oncekey_engine::{Attempt, Call, Engine, Settings};
use oncekey_store::{ManualClock, MemoryStore, Store};
use oncekey_tower::RequestBody;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::{Upstream, UpstreamBody, UpstreamError, UpstreamOptions};
use crate::config::UpstreamHttp;
use crate::drain::Drain;
use crate::fields::Protected;
use crate::scripted::frames::Frames;
use crate::scripted::{Peer, upstream, within};

/// The upstream under test, with a clock that the test turns.
struct Subject {
    upstream: Upstream,
    clock: Arc<ManualClock>,
}

impl Subject {
    fn at(address: SocketAddr) -> Self {
        Self::of(&address.to_string())
    }

    fn of(authority: &str) -> Self {
        Self::with(authority, |_| {})
    }

    /// One that is spoken to in HTTP/2.
    fn two(address: SocketAddr) -> Self {
        Self::with(&address.to_string(), |options| options.http = UpstreamHttp::Two)
    }

    fn with(authority: &str, change: impl FnOnce(&mut UpstreamOptions)) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_micros(0)));
        let mut options = UpstreamOptions::at(authority.parse().unwrap());
        options.connect_timeout = Duration::from_millis(300);
        options.protected = Protected::new([http::HeaderName::from_static("x-account-id")]);
        change(&mut options);
        Self { upstream: Upstream::new(options, clock.clone(), Drain::new()), clock }
    }

    async fn send(&self, request: Request<RequestBody>) -> Result<Response<UpstreamBody>, UpstreamError> {
        within(self.upstream.clone().oneshot(request)).await
    }

    /// Sends a keyed request.
    async fn post(&self) -> Result<Response<UpstreamBody>, UpstreamError> {
        self.send(keyed(running().await.attempt)).await
    }
}

fn unguarded(method: Method, body: RequestBody) -> Request<RequestBody> {
    Request::builder().method(method).uri("/orders?a=1").header("host", "shop.example").body(body).unwrap()
}

fn keyed(attempt: Attempt) -> Request<RequestBody> {
    let mut request = unguarded(Method::POST, RequestBody::whole(Bytes::from_static(b"an order")));
    request.extensions_mut().insert(attempt);
    request
}

/// An execution that runs until it is forgotten, on a store of its own.
struct Running {
    attempt: Attempt,
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
}

async fn running() -> Running {
    let clock = Arc::new(ManualClock::at(Timestamp::from_micros(0)));
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let engine = Engine::<()>::start(store.clone(), clock.clone(), Settings::default()).await.unwrap();
    let (begun, mut attempts) = tokio::sync::mpsc::unbounded_channel();
    let fingerprint = Fingerprint::from_parts([7; 32], Recipe::default());
    let mut policy = Policy::default();
    policy.timing.connect_timeout = Duration::from_millis(300);
    let call = Call {
        identity: Identity {
            namespace: Namespace::default(),
            scope: Scope::new("header:x-account-id", "acc-1").unwrap(),
            key: Key::from_decoded("k-1").unwrap(),
        },
        fingerprint: fingerprint.clone(),
        refingerprint: Arc::new(move |_| fingerprint.clone()),
        origin: Origin { route: "*".to_owned(), method: "POST".to_owned(), path: "/orders".to_owned() },
        policy: Arc::new(policy),
        work: Arc::new(move |attempt| {
            begun.send(attempt).unwrap();
            std::future::pending().boxed()
        }),
        transactions: None,
        unguarded: None,
        probe: None,
        waited: Arc::default(),
    };
    TaskTracker::new().spawn(async move { engine.run(call).await });
    let attempt = within(attempts.recv()).await.unwrap();
    Running { attempt, clock, store }
}

async fn whole(response: Response<UpstreamBody>) -> Result<Bytes, UpstreamError> {
    within(response.into_body().collect()).await.map(http_body_util::Collected::to_bytes)
}

fn is_not_sent<T>(result: Result<T, UpstreamError>) -> bool {
    matches!(result.map(drop), Err(UpstreamError::NotSent(_)))
}

fn is_broken<T>(result: Result<T, UpstreamError>) -> bool {
    matches!(result.map(drop), Err(UpstreamError::Broken(_)))
}

/// A body that is what is sent into it.
fn channel_body() -> (Chunks, RequestBody) {
    let (chunks, body) = tokio::sync::mpsc::channel(4);
    let frames = futures_util::stream::unfold(body, |mut body: tokio::sync::mpsc::Receiver<_>| async move {
        body.recv().await.map(|frame| (frame, body))
    });
    (chunks, RequestBody::streaming(http_body_util::StreamBody::new(frames)))
}

type Chunks = tokio::sync::mpsc::Sender<Result<Frame<Bytes>, std::io::Error>>;
