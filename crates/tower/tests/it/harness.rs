//! A layer over a scripted inner service: what every test starts from.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use oncekey_core::policy::Policy;
use oncekey_core::{Identity, Key, Namespace, RecordId, Scope, State};
use oncekey_engine::{Engine, Settings};
use oncekey_store::{ManualClock, MemoryStore, Store};
use oncekey_store_test::{FaultyStore, START};
use oncekey_tower::{
    BodyError, Budget, Guard, Idempotency, IdempotencyLayer, OwnAnswers, RequestBody, ResponseBody, Route, Routes,
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tower::{Layer, Service, ServiceExt};

use crate::bodies::{TestBody, full};

pub(crate) type Answered = Result<Response<TestBody>, BodyError>;
type Script = dyn Fn(usize) -> BoxFuture<'static, Answered> + Send + Sync;

/// The inner service: notes what it gets, and answers the n-th request (from 0) as its script says.
pub(crate) struct Upstream {
    seen: Arc<Mutex<Vec<Request<Bytes>>>>,
    script: Arc<Script>,
    ready: bool,
}

impl Upstream {
    pub(crate) fn new<F>(script: impl Fn(usize) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answered> + Send + 'static,
    {
        let script = move |number| script(number).boxed();
        Self { seen: Arc::default(), script: Arc::new(script), ready: false }
    }

    /// Answers at once, always alike.
    pub(crate) fn answering(answer: impl Fn() -> Response<TestBody> + Send + Sync + 'static) -> Self {
        Self::new(move |_| std::future::ready(Ok(answer())))
    }

    /// How often it was called.
    pub(crate) fn runs(&self) -> usize {
        self.seen.lock().len()
    }

    /// Answers 201 and says how often it was called.
    pub(crate) fn counting() -> Self {
        Self::new(|number| async move { Ok(created(format!("run {}", number + 1))) })
    }
}

pub(crate) fn created(body: impl Into<Bytes>) -> Response<TestBody> {
    Response::builder().status(201).body(full(body)).unwrap()
}

impl Clone for Upstream {
    /// As the tower contract says: a clone of a ready service may not be ready.
    fn clone(&self) -> Self {
        Self { seen: Arc::clone(&self.seen), script: Arc::clone(&self.script), ready: false }
    }
}

impl Service<Request<RequestBody>> for Upstream {
    type Response = Response<TestBody>;
    type Error = BodyError;
    type Future = BoxFuture<'static, Answered>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "a service must be polled ready before each call");
        let (seen, script) = (Arc::clone(&self.seen), Arc::clone(&self.script));
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let number = {
                let mut seen = seen.lock();
                seen.push(Request::from_parts(head, body));
                seen.len() - 1
            };
            script(number).await
        })
    }
}

/// What a world is made of, beside its inner service.
pub(crate) struct Setup {
    pub(crate) routes: Vec<Route>,
    pub(crate) budget: u64,
    pub(crate) settings: Settings,
    pub(crate) namespace: &'static str,
}

impl Default for Setup {
    fn default() -> Self {
        let settings = Settings::default();
        Self { routes: vec![orders()], budget: 64 * 1024 * 1024, settings, namespace: "default" }
    }
}

impl Setup {
    pub(crate) fn guarded(change: impl FnOnce(&mut Guard)) -> Self {
        let mut route = orders();
        change(&mut route.guard);
        Self { routes: vec![route], ..Self::default() }
    }

    pub(crate) fn governed(change: impl FnOnce(&mut Policy)) -> Self {
        Self { routes: vec![governed("/orders", change)], ..Self::default() }
    }

    pub(crate) async fn start(self, upstream: Upstream) -> World {
        let clock = Arc::new(ManualClock::at(START));
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
        self.start_on(Arc::new(FaultyStore::new(memory)), clock, upstream).await
    }

    pub(crate) async fn start_on(self, store: Arc<FaultyStore>, clock: Arc<ManualClock>, upstream: Upstream) -> World {
        let seen = Arc::clone(&upstream.seen);
        let (layer, metrics) = self.layer(Arc::clone(&store), Arc::clone(&clock)).await;
        World { service: layer.layer(upstream), seen, store, clock, metrics }
    }

    pub(crate) async fn layer(
        self,
        store: Arc<FaultyStore>,
        clock: Arc<ManualClock>,
    ) -> (IdempotencyLayer, Snapshotter) {
        let engine = Engine::start(store, clock, self.settings).await.unwrap();
        let recorder = DebuggingRecorder::new();
        let (namespace, routes) = (self.namespace.parse::<Namespace>().unwrap(), Routes::new(self.routes).unwrap());
        let budget = Budget::new(self.budget);
        let layer =
            metrics::with_local_recorder(&recorder, || IdempotencyLayer::new(engine, namespace, routes, budget));
        (layer, recorder.snapshotter())
    }
}

/// A route like the gateway's own on one path.
pub(crate) fn governed(path: &str, change: impl FnOnce(&mut Policy)) -> Route {
    let mut policy = Policy { route: path.to_owned(), ..Policy::default() };
    change(&mut policy);
    let methods = vec![Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    Route {
        methods,
        path: Some(path.to_owned()),
        guard: Guard::default(),
        policy: Arc::new(policy),
        own_answers: OwnAnswers::default(),
        probe: None,
        transactions: None,
    }
}

pub(crate) fn orders() -> Route {
    governed("/orders", |_| {})
}

/// A guarded service and everything around it.
pub(crate) struct World {
    pub(crate) service: Idempotency<Upstream>,
    pub(crate) seen: Arc<Mutex<Vec<Request<Bytes>>>>,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) metrics: Snapshotter,
}

impl World {
    pub(crate) async fn of(upstream: Upstream) -> Self {
        Setup::default().start(upstream).await
    }

    /// How often the inner service was called.
    pub(crate) fn runs(&self) -> usize {
        self.seen.lock().len()
    }

    /// The answer, its body still to be read.
    pub(crate) async fn head<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BodyError>,
    {
        self.service.clone().oneshot(request).await.unwrap()
    }

    /// The whole answer.
    pub(crate) async fn send<B>(&self, request: Request<B>) -> Response<Bytes>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BodyError>,
    {
        whole(self.head(request).await).await
    }

    /// Sends a request from a task of its own, which gives the whole answer.
    pub(crate) fn spawn(&self, request: Request<TestBody>) -> JoinHandle<Response<Bytes>> {
        let answer = self.service.clone().oneshot(request).boxed();
        spawn(async move { whole(answer.await.unwrap()).await })
    }

    /// Sends a request from a task of its own, which gives the answer with its body still to be read.
    pub(crate) fn spawn_head(&self, request: Request<TestBody>) -> JoinHandle<Response<ResponseBody>> {
        let answer = self.service.clone().oneshot(request).boxed();
        spawn(async move { answer.await.unwrap() })
    }

    /// The state of the record of a key in account `acc-1`.
    pub(crate) async fn state(&self, key: &str) -> Option<State> {
        self.store.read(id(key)).await.unwrap().map(|found| found.record.state)
    }

    /// The requests counted since the last look, by route and outcome, without the zeros.
    pub(crate) fn counted(&self) -> Counts {
        self.counted_both().0
    }

    /// The same, and the problems by route and code.
    pub(crate) fn counted_both(&self) -> (Counts, Counts) {
        let mut all = counters_of(&self.metrics);
        let mut above_zero = |name| {
            let counts: Counts = all.remove(name).unwrap();
            counts.into_iter().filter(|(_, count)| *count > 0).collect()
        };
        (above_zero("oncekey_requests_total"), above_zero("oncekey_problems_total"))
    }
}

/// A counter by its route and its other label.
pub(crate) type Counts = BTreeMap<(String, String), u64>;

/// All that was counted since the last look, by the counter's name.
pub(crate) fn counters_of(metrics: &Snapshotter) -> BTreeMap<String, Counts> {
    let mut all: BTreeMap<String, Counts> = BTreeMap::new();
    for (key, _, _, value) in metrics.snapshot().into_vec() {
        let (_, key) = key.into_parts();
        let DebugValue::Counter(count) = value else { continue };
        let labels: BTreeMap<_, _> = key.labels().map(|label| (label.key(), label.value())).collect();
        let other = labels.iter().find(|(name, _)| **name != "route").expect("a second label");
        assert_eq!(labels.len(), 2, "{labels:?}");
        let by_label = all.entry(key.name().to_owned()).or_default();
        by_label.insert((labels["route"].to_owned(), (*other.1).to_owned()), count);
    }
    all
}

#[expect(clippy::disallowed_methods, reason = "a test's own tasks end with it")]
pub(crate) fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(task)
}

/// Calls a service once it is ready.
pub(crate) async fn call<S: Service<Request<TestBody>>>(service: &mut S, request: Request<TestBody>) -> S::Future {
    service.ready().await.ok().expect("it gets ready").call(request)
}

/// Lets every task that can go on do so, without time passing.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn whole(answer: Response<ResponseBody>) -> Response<Bytes> {
    let (head, body) = answer.into_parts();
    Response::from_parts(head, body.collect().await.expect("a body without errors").to_bytes())
}

/// `POST /orders` of account `acc-1`.
pub(crate) fn post(key: &str) -> http::request::Builder {
    Request::post("/orders").header("Idempotency-Key", key).header("X-Account-Id", "acc-1")
}

/// The same with the order that most tests make.
pub(crate) fn order(key: &str) -> Request<TestBody> {
    post(key).header("Content-Type", "application/json").body(full(r#"{"amount":1200}"#)).unwrap()
}

/// The operation id of a key in account `acc-1`.
pub(crate) fn id(key: &str) -> RecordId {
    let key = Key::from_decoded(key).unwrap();
    Identity { namespace: Namespace::default(), scope: Scope::new("header:X-Account-Id", "acc-1").unwrap(), key }.id()
}

/// The lines of a field.
pub(crate) fn lines<'a, B>(answer: &'a Response<B>, name: &str) -> Vec<&'a str> {
    answer.headers().get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

pub(crate) fn replayed<B>(answer: &Response<B>) -> bool {
    match lines(answer, "Idempotent-Replayed")[..] {
        [] => false,
        ["true"] => true,
        ref other => panic!("Idempotent-Replayed is `true` or absent, not {other:?}"),
    }
}

/// The code of a problem; none if the answer is none.
pub(crate) fn problem<B>(answer: &Response<B>) -> Option<&str> {
    match lines(answer, "Oncekey-Problem")[..] {
        [] => None,
        [code] => Some(code),
        ref other => panic!("one code, not {other:?}"),
    }
}

pub(crate) const MINUTE: Duration = Duration::from_mins(1);
