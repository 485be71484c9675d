//! The layer where Rust users meet it: in axum as a layer of a router, of some routes and of one handler; in hyper around a
//! function.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::body::Body;
use axum::extract::Json;
use axum::routing::{get, post};
use axum::{Extension, Router};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use oncekey_engine::Attempt;
use oncekey_store::{MemoryStore, SystemClock};
use oncekey_tower::{Guard, InvalidScope, Oncekey, Options, RequestBody, Route, ScopeReader};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::{ServiceBuilder, ServiceExt};

use crate::harness::spawn;

async fn oncekey() -> Oncekey {
    started(Options::default()).await
}

async fn started(options: Options) -> Oncekey {
    Oncekey::start(Arc::new(MemoryStore::new(Arc::new(SystemClock))), options).await.unwrap()
}

/// A handler that says how often it ran, and for which operation.
async fn place(
    Extension(runs): Extension<Arc<AtomicU32>>,
    attempt: Option<Extension<Attempt>>,
) -> (StatusCode, String) {
    let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
    let attempt = attempt.map(|Extension(attempt)| format!(", attempt {} of {}", attempt.number, attempt.id));
    (StatusCode::CREATED, format!("run {run}{}", attempt.unwrap_or_default()))
}

fn order(path: &str, key: Option<&str>) -> Request<Body> {
    let mut request = Request::post(path).header("X-Account-Id", "acc-1").body(Body::from("{}")).unwrap();
    if let Some(key) = key {
        request.headers_mut().insert("idempotency-key", key.parse().unwrap());
    }
    request
}

/// The status, whether it is a replay, and the body.
async fn ask(app: &Router, request: Request<Body>) -> (u16, bool, String) {
    let (head, body) = app.clone().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let replayed = head.headers.contains_key("idempotent-replayed");
    (head.status.as_u16(), replayed, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn in_axum_it_is_a_layer_of_a_router_of_routes_and_of_a_handler() {
    let runs = || Extension(Arc::new(AtomicU32::new(0)));
    let oncekey = oncekey().await;
    let apps = [
        Router::new().route("/a", post(place)).layer(oncekey.layer()).layer(runs()),
        Router::new().route("/b", post(place)).route_layer(oncekey.layer()).layer(runs()),
        Router::new().route("/c", post(place).layer(oncekey.layer()).get(|| async { "c" })).layer(runs()),
        Router::new().route("/d", post(place)).layer(ServiceBuilder::new().layer(oncekey.layer())).layer(runs()),
    ];
    for (app, path) in apps.iter().zip(["/a", "/b", "/c", "/d"]) {
        let (status, replayed, body) = ask(app, order(path, Some(path.trim_matches('/')))).await;
        assert_eq!((status, replayed), (201, false));
        assert!(body.starts_with("run 1, attempt 1 of "), "{body}");
        assert_eq!(ask(app, order(path, Some(path.trim_matches('/')))).await, (201, true, body));
        assert_eq!(ask(app, order(path, None)).await, (201, false, "run 2".to_owned()), "without a key");
    }
    oncekey.shutdown().await;
}

#[tokio::test]
async fn an_extractor_gets_the_whole_body_and_its_refusal_is_recorded() {
    async fn amount(Json(amount): Json<u32>) -> String {
        amount.to_string()
    }
    let oncekey = oncekey().await;
    let app = Router::new().route("/amount", post(amount)).route("/", get(|| async { "home" })).layer(oncekey.layer());
    let request = |key: &str, body: &'static str| {
        let builder = Request::post("/amount").header("X-Account-Id", "acc-1").header("Idempotency-Key", key);
        builder.header("Content-Type", "application/json").body(Body::from(body)).unwrap()
    };
    for replayed in [false, true] {
        assert_eq!(ask(&app, request("k", "12")).await, (200, replayed, "12".to_owned()));
        let (status, again, _) = ask(&app, request("wrong", "{")).await;
        assert_eq!((status, again), (422, replayed));
    }
    let home = Request::get("/").header("Idempotency-Key", "k").body(Body::empty()).unwrap();
    assert_eq!(ask(&app, home).await, (200, false, "home".to_owned()));
    oncekey.shutdown().await;
}

#[tokio::test]
async fn a_closure_reads_the_scope_from_what_stands_in_front() {
    #[derive(Clone)]
    struct User(&'static str);
    let user = ScopeReader::new("user", |head| match head.extensions.get::<User>() {
        Some(user) => Ok(Some(user.0.to_owned())),
        None => Err(InvalidScope::because("Sign in first.")),
    });
    let guard = Guard { scope: vec![user], ..Guard::default() };
    let oncekey = started(Options { routes: vec![Route { guard, ..Route::default() }], ..Options::default() }).await;
    let runs = Extension(Arc::new(AtomicU32::new(0)));
    let app = Router::new().route("/a", post(place)).layer(oncekey.layer()).layer(runs);
    let app_of = |user| app.clone().layer(Extension(User(user)));
    for (user, run, replayed) in [("ann", "run 1", false), ("bob", "run 2", false), ("ann", "run 1", true)] {
        let (status, again, body) = ask(&app_of(user), order("/a", Some("k"))).await;
        assert_eq!((status, again, &body[..5]), (201, replayed, run), "{user}");
    }
    assert_eq!(ask(&app, order("/a", Some("k"))).await.0, 400, "no user");
    oncekey.shutdown().await;
}

#[tokio::test]
async fn in_hyper_it_wraps_a_function() {
    let runs = Arc::new(AtomicU32::new(0));
    let oncekey = oncekey().await;
    let function = tower::service_fn(move |request: Request<RequestBody>| {
        let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            let len = request.into_body().collect().await.map_or(0, |body| body.to_bytes().len());
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(format!("run {run}, {len} bytes")))))
        }
    });
    let service = ServiceBuilder::new().layer(oncekey.layer()).service(function);
    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let serving = spawn(async move {
        let server = TokioIo::new(server);
        auto::Builder::new(TokioExecutor::new())
            .serve_connection(server, TowerToHyperService::new(service))
            .await
            .unwrap();
    });
    let request = "POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nX-Account-Id: a\r\nContent-Length: 3\r\n";
    client.write_all(format!("{request}\r\nabc{request}Connection: close\r\n\r\nabc").as_bytes()).await.unwrap();
    let mut answers = String::new();
    client.read_to_string(&mut answers).await.unwrap();
    serving.await.unwrap();
    assert_eq!(answers.matches("run 1, 3 bytes").count(), 2, "{answers}");
    assert_eq!(answers.matches("idempotent-replayed: true").count(), 1, "{answers}");
    oncekey.shutdown().await;
}
