//! A layer on a store that fails on command, with a recorder of its own, and the book of what it should have counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use metrics::LocalRecorderGuard;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use oncekey_core::policy::{OnUnknown, Policy};
use oncekey_core::{Identity, Key, Namespace, RecordId, Scope};
use oncekey_engine::{Engine, NotExecuted, Settings};
use oncekey_store::{Clock, ManualClock, Store};
use oncekey_store_postgres::{PostgresOptions, PostgresStore};
use oncekey_store_sqlite::{SqliteOptions, SqliteStore};
use oncekey_store_test::{Fault, FaultyStore, Op, START};
use oncekey_testkit::TempDir;
use oncekey_tower::{BodyError, Budget, Guard, IdempotencyLayer, OwnAnswers, RequestBody, ResponseBody, Route, Routes};
use tokio::sync::{Semaphore, watch};
use tower::{Layer, ServiceExt, service_fn};

use crate::server::{self, SERVER};

type Answered = Result<Response<Full<Bytes>>, BodyError>;
type Sent = BoxFuture<'static, Response<ResponseBody>>;

/// What should have been counted.
#[derive(Default)]
pub(super) struct Book {
    requests: BTreeMap<String, u64>,
    problems: BTreeMap<String, u64>,
    answered: u64,
    errors: u64,
    pub(super) executions: u64,
    pub(super) waits: u64,
    pub(super) takeovers: u64,
    pub(super) fenced: u64,
    pub(super) swept: u64,
}

impl Book {
    /// A keyed request, by its outcome and its problem.
    pub(super) fn request(&mut self, route: &str, outcome: &str, problem: Option<&str>) {
        *self.requests.entry(format!("{route} {outcome}")).or_default() += 1;
        if let Some(code) = problem {
            *self.problems.entry(format!("{route} {code}")).or_default() += 1;
        }
        self.answered += 1;
    }

    /// One that was refused by its head.
    pub(super) fn rejected(&mut self, route: &str, code: &str) {
        self.request(route, "rejected", Some(code));
        self.answered -= 1;
    }
}

pub(super) struct World {
    send: Arc<dyn Fn(Request<Full<Bytes>>) -> Sent>,
    pub(super) engine: Engine<Response<ResponseBody>>,
    pub(super) store: Arc<FaultyStore>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) book: Book,
    gate: Arc<Semaphore>,
    gated: watch::Receiver<u64>,
    executing: u64,
    metrics: Snapshotter,
    _recording: LocalRecorderGuard<'static>,
}

pub(super) async fn on_sqlite() -> (TempDir, World) {
    let directory = oncekey_testkit::scratch_dir().expect("a directory");
    let options = SqliteOptions::new(directory.path().join("records.db"));
    oncekey_store_sqlite::migrate(&options).expect("a database");
    let clock = Arc::new(ManualClock::at(START));
    let store = SqliteStore::open(options, clock.clone()).expect("it opens");
    (directory, World::start(Arc::new(store), clock).await)
}

pub(super) async fn on_postgres() -> World {
    let url = SERVER.url(&server::database().await);
    let clock = Arc::new(ManualClock::at(START));
    let options = || PostgresOptions::from_url(&url).expect("a URL").with_clock(clock.clone());
    oncekey_store_postgres::migrate(&options()).await.expect("tables");
    let store = PostgresStore::open(options()).await.expect("it opens");
    World::start(Arc::new(store), clock).await
}

pub(super) fn key_of(number: u64) -> String {
    format!("key-{number}")
}

fn identity(key: &str) -> Identity {
    let scope = Scope::new("header:X-Account-Id", "acc-1").expect("a scope");
    Identity { namespace: Namespace::default(), scope, key: Key::from_decoded(key).expect("a key") }
}

pub(super) fn id(key: &str) -> RecordId {
    identity(key).id()
}

fn route(path: &str, on_unknown: OnUnknown) -> Route {
    let mut policy = Policy { route: path.to_owned(), on_unknown, ..Policy::default() };
    // Nobody is to be told to come back because the machine is busy.
    policy.timing.wait = Duration::from_mins(5);
    policy.timing.answer_timeout = Duration::from_mins(5);
    policy.timing.record_timeout = Duration::from_mins(5);
    Route {
        methods: vec![Method::POST],
        path: Some(path.to_owned()),
        guard: Guard::default(),
        policy: Arc::new(policy),
        own_answers: OwnAnswers::default(),
        probe: None,
        transactions: None,
    }
}

/// Does what the request asks it to.
async fn upstream(request: Request<RequestBody>, gate: Arc<Semaphore>, gated: watch::Sender<u64>) -> Answered {
    let status = match request.headers()["x-do"].as_bytes() {
        b"busy" => 429,
        b"gateway" => 502,
        b"cut" => return Err("the connection broke".into()),
        b"refuse" => return Err(NotExecuted::because("refused").into()),
        b"gate" => {
            gated.send_modify(|arrived| *arrived += 1);
            gate.acquire().await?.forget();
            201
        }
        _ => 201,
    };
    Ok(Response::builder().status(status).body(Full::new(Bytes::from_static(b"{}")))?)
}

impl World {
    async fn start(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        // Its recorder is that of its thread, on which everything runs that counts.
        let recorder: &'static DebuggingRecorder = Box::leak(Box::new(DebuggingRecorder::new()));
        let recording = metrics::set_default_local_recorder(recorder);
        let store = Arc::new(FaultyStore::new(store));
        let settings = Settings { store_timeout: Duration::from_mins(5), ..Settings::default() };
        let node_clock: Arc<dyn Clock> = clock.clone();
        let engine = Engine::start(Arc::clone(&store) as Arc<dyn Store>, node_clock, settings).await.expect("a node");
        let routes = vec![route("/orders", OnUnknown::Hold), route("/retried", OnUnknown::Retry)];
        let routes = Routes::new(routes).expect("routes");
        let layer = IdempotencyLayer::new(engine.clone(), Namespace::default(), routes, Budget::new(64 << 20));
        let (gate, (arrives, gated)) = (Arc::new(Semaphore::new(0)), watch::channel(0));
        let opens = Arc::clone(&gate);
        let service = layer.layer(service_fn(move |request| upstream(request, Arc::clone(&opens), arrives.clone())));
        let send = move |request| service.clone().oneshot(request).map(|answer| answer.expect("an answer")).boxed();
        Self {
            send: Arc::new(send),
            engine,
            store,
            clock,
            book: Book::default(),
            gate,
            gated,
            executing: 0,
            metrics: recorder.snapshotter(),
            _recording: recording,
        }
    }

    /// Sends a request; the status.
    pub(super) fn call(&self, route: &str, key: &str, script: &str) -> impl Future<Output = u16> + Send + 'static {
        self.call_as(route, key, script, "{}")
    }

    fn call_as(&self, route: &str, key: &str, script: &str, body: &str) -> impl Future<Output = u16> + Send + 'static {
        let request = Request::post(route)
            .header("Idempotency-Key", key)
            .header("X-Account-Id", "acc-1")
            .header("Content-Type", "application/json")
            .header("X-Do", script)
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
            .expect("a request");
        let answer = (self.send)(request);
        async move {
            let (head, body) = answer.await.into_parts();
            body.collect().await.expect("a whole body");
            head.status.as_u16()
        }
    }

    pub(super) async fn send(&self, route: &str, key: &str, script: &str) -> u16 {
        self.call(route, key, script).await
    }

    pub(super) async fn send_as(&self, route: &str, key: &str, script: &str, body: &str) -> u16 {
        self.call_as(route, key, script, body).await
    }

    /// Lets the next call of `op` fail, and books it.
    pub(super) fn fail(&mut self, op: Op, fault: Fault) {
        self.store.fail_next(op, fault);
        self.book.errors += 1;
    }

    /// Waits until one more execution stands at the gate.
    pub(super) async fn executing(&mut self) {
        self.executing += 1;
        let wanted = self.executing;
        self.gated.wait_for(|arrived| *arrived == wanted).await.expect("the upstream lives");
    }

    /// Waits until so many requests wait.
    pub(super) async fn waiting(&self, waiters: usize) {
        while self.engine.waiters() < waiters {
            tokio::task::yield_now().await;
        }
    }

    /// Lets one through the gate.
    pub(super) fn open(&self) {
        self.gate.add_permits(1);
    }

    /// What should have been counted since the last look, without the zeros.
    pub(super) fn booked(&self) -> BTreeMap<String, u64> {
        let book = &self.book;
        let labelled = |name: &str, counts: &BTreeMap<String, u64>| -> Vec<(String, u64)> {
            counts.iter().map(|(labels, count)| (format!("{name} {labels}"), *count)).collect()
        };
        let mut all = labelled("oncekey_requests_total", &book.requests);
        all.extend(labelled("oncekey_problems_total", &book.problems));
        for (name, count) in [
            ("oncekey_store_errors_total", book.errors),
            ("oncekey_takeovers_total", book.takeovers),
            ("oncekey_fenced_writes_total", book.fenced),
            ("oncekey_swept_total", book.swept),
            ("oncekey_execution_seconds", book.executions),
            ("oncekey_wait_seconds", book.waits),
            ("oncekey_overhead_seconds", book.answered),
            ("oncekey_store_seconds claim", self.store.calls(Op::Claim)),
            ("oncekey_store_seconds complete", self.store.calls(Op::Record)),
        ] {
            all.push((name.to_owned(), count));
        }
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// What was counted since the last look, of what is booked; of histograms, how many values.
    pub(super) fn figures(&self) -> BTreeMap<String, u64> {
        let mut figures: BTreeMap<String, u64> = BTreeMap::new();
        for (key, _, _, value) in self.metrics.snapshot().into_vec() {
            let (_, key) = key.into_parts();
            let labels: BTreeMap<_, _> = key.labels().map(|label| (label.key(), label.value())).collect();
            let label = |name: &str| labels.get(name).copied().unwrap_or_default();
            let (name, count) = match (key.name(), value) {
                (name @ "oncekey_requests_total", DebugValue::Counter(count)) => {
                    (format!("{name} {} {}", label("route"), label("outcome")), count)
                }
                (name @ "oncekey_problems_total", DebugValue::Counter(count)) => {
                    (format!("{name} {} {}", label("route"), label("code")), count)
                }
                ("oncekey_lapsed_total", _) | (_, DebugValue::Gauge(_)) => continue,
                (name, DebugValue::Counter(count)) => (name.to_owned(), count),
                (name @ "oncekey_store_seconds", DebugValue::Histogram(values)) => match label("op") {
                    op @ ("claim" | "complete") => (format!("{name} {op}"), values.len() as u64),
                    // In the background as well.
                    _ => continue,
                },
                (name, DebugValue::Histogram(values)) => (name.to_owned(), values.len() as u64),
            };
            *figures.entry(name).or_default() += count;
        }
        figures.retain(|_, count| *count > 0);
        figures
    }
}
