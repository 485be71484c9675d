//! Transactional mode (G3) over HTTP: what each answer does to rows and record, and what a handler finds in its request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use oncekey_core::policy::{OnStoreError, Policy};
use oncekey_core::{RecordedResponse, TraceContext, response::RecordedBody};
use oncekey_engine::Attempt;
use oncekey_store::{Deferred, ManualClock, MemoryStore, Store, TransactionHandle};
use oncekey_store_test::{Buffer, EndFault, FaultyStore, Gate, START, ScriptedTransactions};
use oncekey_tower::{BodyError, Guard, Idempotency, Oncekey, Options, RequestBody, Route, RouteError, StartError};
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

use crate::bodies::{TestBody, followed_by, full, pieces};
use crate::harness::*;

type Handler = BoxCloneSyncService<Request<RequestBody>, Response<TestBody>, BodyError>;

/// A route in transactional mode.
struct Stage {
    service: Idempotency<Handler>,
    store: Arc<FaultyStore>,
    transactions: Arc<ScriptedTransactions>,
    runs: Arc<AtomicUsize>,
    metrics: metrics_util::debugging::Snapshotter,
}

/// What the handler writes its row into.
fn buffer(handle: &TransactionHandle) -> &Buffer {
    handle.0.downcast_ref::<Buffer>().expect("a scripted transaction")
}

impl Stage {
    /// Its handler writes a row, and answers as told.
    async fn answering(policy: fn(&mut Policy), answer: impl Fn() -> Answered + Clone + Send + Sync + 'static) -> Self {
        let handler = move |request: &Request<RequestBody>| {
            buffer(request.extensions().get::<TransactionHandle>().expect("a transaction")).write("row");
            answer()
        };
        Self::of(policy, handler).await
    }

    async fn of(
        change: fn(&mut Policy),
        handler: impl Fn(&Request<RequestBody>) -> Answered + Clone + Send + Sync + 'static,
    ) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
        let store = Arc::new(FaultyStore::new(memory));
        let transactions = Arc::new(ScriptedTransactions::new(store.clone()));
        let mut policy = Policy { route: "/orders".to_owned(), ..Policy::default() };
        change(&mut policy);
        let policy = Arc::new(policy);
        let route = Route { policy, ..Route::at("/orders").within(transactions.clone()) };
        let (layer, metrics) = Setup { routes: vec![route], ..Setup::default() }.layer(Arc::clone(&store), clock).await;
        let runs = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&runs);
        let service = service_fn(move |request| {
            counter.fetch_add(1, Ordering::SeqCst);
            let handler = handler.clone();
            async move { handler(&request) }
        });
        let service = layer.layer(BoxCloneSyncService::new(service));
        Self { service, store, transactions, runs, metrics }
    }

    async fn send(&self, request: Request<TestBody>) -> Response<Bytes> {
        whole(self.service.clone().oneshot(request).await.expect("an answer")).await
    }

    /// Rows, whether there is a record, and runs.
    async fn left(&self) -> (usize, bool, usize) {
        let record = self.store.read(id("k")).await.expect("a reading").is_some();
        (self.transactions.rows().len(), record, self.runs.load(Ordering::SeqCst))
    }

    async fn recorded(&self) -> Arc<RecordedResponse> {
        self.store.read(id("k")).await.expect("a reading").expect("a record").response.expect("an answer")
    }
}

fn answer(status: u16) -> Response<TestBody> {
    Response::builder().status(status).header("X-Theirs", "yes").body(full("theirs")).unwrap()
}

#[tokio::test(start_paused = true)]
async fn rows_and_record_follow_the_status() {
    for (status, rows, recorded) in [
        (200, 1, true),
        (201, 1, true),
        (303, 1, true),
        (400, 0, true),
        (404, 0, true),
        (422, 0, true),
        (401, 0, false),
        (429, 0, false),
        (500, 0, false),
        (502, 0, false),
        (503, 0, false),
    ] {
        let stage = Stage::answering(|_| {}, move || Ok(answer(status))).await;
        let first = stage.send(order("k")).await;
        assert_eq!((first.status().as_u16(), &first.body()[..], replayed(&first)), (status, &b"theirs"[..], false));
        assert_eq!((lines(&first, "X-Theirs"), problem(&first)), (vec!["yes"], None), "as it is");
        assert_eq!(lines(&first, "Oncekey-Operation-Id").len(), 1);
        assert_eq!(stage.left().await, (rows, recorded, 1), "{status}");
        let retry = stage.send(order("k")).await;
        assert_eq!((retry.status().as_u16(), replayed(&retry)), (status, recorded));
        assert_eq!(stage.left().await, (rows, recorded, if recorded { 1 } else { 2 }), "{status}");
        let counted = counters_of(&stage.metrics).remove("oncekey_requests_total").unwrap();
        let of = |outcome: &str| counted.get(&("/orders".to_owned(), outcome.to_owned())).copied().unwrap_or(0);
        assert_eq!((of("executed"), of("replayed"), of("failed")), if recorded { (1, 1, 0) } else { (0, 0, 2) });
    }
}

#[tokio::test(start_paused = true)]
async fn the_routes_own_statuses_and_the_handlers_own_verdict_count() {
    let stage = Stage::answering(|policy| policy.recording.retry_status.insert(409), || Ok(answer(409))).await;
    stage.send(order("k")).await;
    assert_eq!(stage.left().await, (0, false, 1));
    for (status, said, rows, recorded) in [
        (500, "completed", 0, true),
        (429, "completed", 0, true),
        (201, "failed", 0, false),
        (201, "completed", 1, true),
    ] {
        let told = move || {
            let mut answer = answer(status);
            answer.headers_mut().insert("oncekey-outcome", HeaderValue::from_static(said));
            Ok(answer)
        };
        let stage = Stage::answering(|policy| policy.recording.trust_outcome = true, told).await;
        stage.send(order("k")).await;
        assert_eq!(stage.left().await, (rows, recorded, 1), "{status} {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_an_error_and_an_answer_cut_short_leave_nothing_and_say_so() {
    let failures: [fn() -> Answered; 3] = [
        || panic!("as tests do"),
        || Err("connection reset".into()),
        || Ok(Response::new(pieces([Ok("half".into()), Err("reset")]))),
    ];
    for fails in failures {
        let stage = Stage::answering(|_| {}, fails).await;
        assert_eq!(problem(&stage.send(order("k")).await), Some("upstream-unreachable"));
        assert_eq!(stage.left().await, (0, false, 1));
        stage.send(order("k")).await;
        assert_eq!(stage.left().await, (0, false, 2), "a retry runs");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_gets_the_first_ones_answer_though_it_was_rolled_back() {
    let stage = Stage::answering(|_| {}, || Ok(answer(500))).await;
    let gate = Gate::default();
    stage.transactions.fail_end(EndFault::Held(gate.clone()));
    let send = |stage: &Stage| stage.service.clone().oneshot(order("k")).boxed();
    let (first, second) = (spawn(send(&stage)), spawn(send(&stage)));
    gate.reached().await;
    settle().await;
    gate.open();
    let mut answers = [whole(first.await.unwrap().unwrap()).await, whole(second.await.unwrap().unwrap()).await];
    answers.sort_by_key(replayed);
    assert_eq!(
        answers.each_ref().map(|answer| (answer.status().as_u16(), replayed(answer))),
        [(500, false), (500, true)]
    );
    assert_eq!(stage.left().await, (0, false, 1));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_is_never_answered_with_success() {
    for (fault, code, recorded) in [
        (EndFault::NotApplied, "store-unavailable", false),
        (EndFault::RolledBack, "upstream-unreachable", false),
        (EndFault::ReplyLost, "outcome-unknown", true),
        (EndFault::RequestLost, "outcome-unknown", false),
    ] {
        let stage = Stage::answering(|_| {}, || Ok(answer(201))).await;
        stage.transactions.fail_end(fault);
        let first = stage.send(order("k")).await;
        assert_eq!((problem(&first), lines(&first, "X-Theirs").len()), (Some(code), 0));
        assert_eq!(lines(&first, "Retry-After").len(), 1, "its retry finds out");
        assert_eq!(replayed(&stage.send(order("k")).await), recorded);
        assert_eq!(stage.left().await, (1, true, if recorded { 1 } else { 2 }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_finds_its_transaction_and_whoever_keeps_the_attempt_keeps_none() {
    let attempts = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let keeps = Arc::clone(&attempts);
    let stage = Stage::of(
        |_| {},
        move |request| {
            let extensions = request.extensions();
            let found = extensions.get::<TransactionHandle>().is_some();
            keeps.lock().extend(extensions.get::<Attempt>().cloned());
            Ok(created(if found { "within" } else { "without" }))
        },
    )
    .await;
    assert_eq!(stage.send(order("k")).await.body(), "within");
    assert_eq!((stage.left().await, attempts.lock().len()), ((0, true, 1), 1), "committed all the same");
    assert!(attempts.lock()[0].transaction.is_none());
    let unkeyed = Request::post("/orders").body(full("")).unwrap();
    assert_eq!(stage.send(unkeyed).await.body(), "without");
}

/// An answer that is made in the transaction, and the placeholder that its handler returns.
fn deferred(make: impl FnOnce(&Buffer) -> Response<Bytes> + Send + 'static) -> Response<TestBody> {
    let mut placeholder = Response::new(full("placeholder"));
    placeholder.extensions_mut().insert(Deferred::new(Box::new(|connection| {
        let buffer = connection.downcast_ref::<Buffer>().expect("a scripted transaction");
        buffer.write("row");
        make(buffer)
    })));
    placeholder
}

#[tokio::test(start_paused = true)]
async fn an_answer_made_in_the_transaction_is_judged_like_any_other() {
    for (status, rows, recorded) in [(201, 1, true), (404, 0, true), (429, 0, false), (500, 0, false)] {
        let make = move |_: &_| {
            Ok(deferred(move |_| {
                let answer =
                    Response::builder().status(status).header("Oncekey-Problem", "theirs").header("X-Theirs", "yes");
                answer.body("made".into()).unwrap()
            }))
        };
        let stage = Stage::of(|_| {}, make).await;
        let first = stage.send(order("k")).await;
        assert_eq!((first.status().as_u16(), &first.body()[..], problem(&first)), (status, &b"made"[..], None));
        assert_eq!((lines(&first, "X-Theirs"), stage.left().await), (vec!["yes"], (rows, recorded, 1)));
        let retry = stage.send(order("k")).await;
        assert_eq!((&retry.body()[..], replayed(&retry)), (&b"made"[..], recorded));
    }
    let stage = Stage::of(|_| {}, |_| Ok(deferred(|_| panic!("as tests do")))).await;
    assert_eq!(problem(&stage.send(order("k")).await), Some("upstream-unreachable"));
    assert_eq!(stage.left().await, (0, false, 1));
}

/// The inner service puts it into the answer that it returns, which is the placeholder.
#[tokio::test(start_paused = true)]
async fn where_an_execution_is_in_its_trace_is_kept_however_its_answer_is_made() {
    let trace = TraceContext::new([1; 16], [2; 8]).expect("not all zeros");
    let traced = move |mut answer: Response<TestBody>| {
        answer.extensions_mut().insert(trace);
        Ok(answer)
    };
    let ways = [
        Stage::of(|_| {}, move |_| traced(created("now"))).await,
        Stage::of(|_| {}, move |_| traced(deferred(|_| Response::new("made".into())))).await,
    ];
    for stage in ways {
        stage.send(order("k")).await;
        assert_eq!(stage.recorded().await.trace, Some(trace));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_made_in_the_transaction_runs_again_and_may_be_too_large_to_keep() {
    let large = |_: &_| Ok(deferred(|_| Response::new(vec![b'x'; 1024 * 1024 + 1].into())));
    let stage = Stage::of(|_| {}, large).await;
    stage.transactions.fail_end(EndFault::Again);
    assert_eq!(stage.send(order("k")).await.body().len(), 1024 * 1024 + 1, "given whole (R5)");
    assert_eq!((stage.left().await, &stage.recorded().await.body), ((1, true, 2), &RecordedBody::NotStored));
    assert_eq!(problem(&stage.send(order("k")).await), Some("response-not-stored"));
}

#[tokio::test(start_paused = true)]
async fn work_left_for_a_transaction_that_is_none_is_never_taken_for_done() {
    let world = World::of(Upstream::new(|_| async { Ok(deferred(|_| Response::new("made".into()))) })).await;
    assert_eq!(problem(&world.send(order("k")).await), Some("outcome-unknown"));
}

#[tokio::test(start_paused = true)]
async fn a_stream_begins_after_its_commit() {
    let events =
        || Ok(Response::builder().header("Content-Type", "text/event-stream").body(full("data: 1\n\n")).unwrap());
    let stage = Stage::answering(|_| {}, events).await;
    let gate = Gate::default();
    stage.transactions.fail_end(EndFault::Held(gate.clone()));
    let first = spawn(stage.service.clone().oneshot(order("k")).boxed());
    gate.reached().await;
    settle().await;
    assert!(!first.is_finished());
    gate.open();
    let first = first.await.unwrap().unwrap();
    assert_eq!((stage.left().await, &stage.recorded().await.body), ((1, true, 1), &RecordedBody::NotStored));
    assert_eq!(whole(first).await.body(), "data: 1\n\n");
}

#[tokio::test(start_paused = true)]
async fn a_grpc_answer_counts_as_the_http_status_that_is_nearest() {
    for (code, rows, recorded) in [("0", 1, true), ("5", 0, true), ("13", 0, false), ("14", 0, false), ("", 0, false)] {
        let answer = move || {
            let status =
                (!code.is_empty()).then(|| (HeaderName::from_static("grpc-status"), HeaderValue::from_static(code)));
            let body = followed_by(&b"\0\0\0\0\0"[..], HeaderMap::from_iter(status));
            Ok(Response::builder().header("Content-Type", "application/grpc").body(body).unwrap())
        };
        let stage = Stage::answering(|_| {}, answer).await;
        stage.send(post("k").header("Content-Type", "application/grpc").body(full(&b"\0\0\0\0\0"[..])).unwrap()).await;
        assert_eq!(stage.left().await, (rows, recorded, 1), "{code}");
    }
}

#[tokio::test]
async fn all_routes_are_in_transactional_mode_by_one_option_and_none_lets_requests_through() {
    let store = Arc::new(MemoryStore::default());
    let transactions = Arc::new(ScriptedTransactions::new(store.clone()));
    let place = |axum::Extension(handle): axum::Extension<TransactionHandle>| async move {
        buffer(&handle).write("row");
        (http::StatusCode::CREATED, "placed")
    };
    let options = || Options { transactions: Some(transactions.clone()), ..Options::default() };
    let oncekey = Oncekey::start(store.clone(), options()).await.unwrap();
    let app = axum::Router::new().route("/orders", axum::routing::post(place)).layer(oncekey.layer());
    for _ in 0..2 {
        let order = post("k").body(axum::body::Body::from("{}")).unwrap();
        let answer = app.clone().oneshot(order).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "placed");
    }
    assert_eq!(transactions.rows(), ["row"]);
    oncekey.shutdown().await;

    let policy = Policy { on_store_error: OnStoreError::Open, ..Policy::default() };
    let open = vec![Route { policy: Arc::new(policy), guard: Guard::default(), ..Route::at("/orders") }];
    let refused = Oncekey::start(store.clone(), Options { routes: open.clone(), ..options() }).await.err().unwrap();
    assert!(matches!(refused, StartError::Routes(RouteError::OpenTransaction(_))), "{refused}");
    let allowed = Oncekey::start(store, Options { routes: open, ..Options::default() }).await.unwrap();
    allowed.shutdown().await;
}
