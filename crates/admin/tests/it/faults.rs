//! A store that fails or doesn't answer: the listener does.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Method, Request};
use oncekey_admin::{Access, Node, router};
use oncekey_core::State;
use oncekey_store::Store;
use oncekey_store_test::{Fault, FaultyStore, Gate, Op};
use parking_lot::Mutex;

use crate::world::{World, ask, options, world};

const OPS: [Op; 8] = [Op::Read, Op::List, Op::Sweep, Op::Resolve, Op::Purge, Op::Stats, Op::Audit, Op::NoteSweep];
const ID: &str = "00000000-0000-8000-8000-000000000000";

/// The same node, seen through a store that fails.
fn faulty(world: &World) -> (Arc<FaultyStore>, Router) {
    let store = Arc::new(FaultyStore::new(Arc::clone(&world.store) as Arc<_>));
    let changed = Arc::clone(&world.changed);
    let node = Node {
        changed: Box::new(move |id| changed.lock().push(id)),
        trusts_clock: Box::new(|| true),
        believes: Box::new(|_| true),
        mismatches: Box::new(|_| Vec::new()),
    };
    let router = router(options(Arc::clone(&store) as Arc<_>, Access::Loopback, node).1);
    (store, router)
}

fn request(method: &Method, path: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    let body = match path {
        "/api/records/resolve" => r#"{"all":true,"as":"failed"}"#,
        "/api/records/purge" => r#"{"all":true}"#,
        path if path.ends_with("/resolve") => r#"{"as":"failed"}"#,
        _ => "",
    };
    request.header("content-type", "application/json").body(Body::from(body)).unwrap()
}

fn calls() -> [(Method, String); 9] {
    [
        (Method::GET, "/api/records".to_owned()),
        (Method::GET, "/api/stats".to_owned()),
        (Method::GET, format!("/api/records/{ID}")),
        (Method::DELETE, format!("/api/records/{ID}")),
        (Method::POST, format!("/api/records/{ID}/resolve")),
        (Method::POST, "/api/sweep".to_owned()),
        (Method::GET, "/api/audit".to_owned()),
        (Method::POST, "/api/records/resolve".to_owned()),
        (Method::POST, "/api/records/purge".to_owned()),
    ]
}

#[tokio::test(start_paused = true)]
async fn what_needs_a_store_that_does_not_answer_is_503_and_the_rest_is_not() {
    let (store, router) = faulty(&world().await);
    for op in OPS {
        store.fail_always(op, Fault::HeldBefore(Gate::default()));
    }
    for (method, path) in calls() {
        assert_eq!(ask(&router, request(&method, &path)).await.status, 503, "{method} {path}");
    }
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/readyz?store", 503), ("/metrics", 200)] {
        assert_eq!(ask(&router, request(&Method::GET, path)).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn a_failure_of_the_store_says_whether_to_repeat_and_not_what_the_store_said() {
    let (store, router) = faulty(&world().await);
    let cases = [
        (Fault::NotApplied, 503, "nothing was changed"),
        (Fault::RequestLost, 503, "may have been applied"),
        (Fault::Corrupt, 500, "never taken for absent"),
    ];
    for (fault, status, hint) in cases {
        for op in OPS {
            store.fail_always(op, fault.clone());
        }
        for (method, path) in calls() {
            let answer = ask(&router, request(&method, &path)).await;
            assert_eq!(answer.status, status, "{fault:?} {method} {path}");
            let detail = answer.detail();
            assert!(detail.contains(hint) && !detail.contains("injected"), "{detail}");
        }
    }
}

#[tokio::test]
async fn a_change_whose_acknowledgement_was_lost_is_forgotten_by_the_replay_cache_too() {
    let world = world().await;
    let (store, router) = faulty(&world);
    let id = world.unknown("k-1").await;
    store.fail_next(Op::Resolve, Fault::ReplyLost);
    let answer = ask(&router, request(&Method::POST, &format!("/api/records/{id}/resolve"))).await;
    assert_eq!(answer.status, 503);
    assert_eq!(world.store.read(id).await.unwrap().unwrap().record.state, State::Failed);
    store.fail_next(Op::Purge, Fault::ReplyLost);
    assert_eq!(ask(&router, request(&Method::DELETE, &format!("/api/records/{id}"))).await.status, 503);
    assert!(world.store.read(id).await.unwrap().is_none());
    assert_eq!(*world.changed.lock(), [id, id]);
}

#[tokio::test(start_paused = true)]
async fn a_crowd_of_calls_that_wait_for_the_store_does_not_hold_up_health() {
    let (store, router) = faulty(&world().await);
    store.fail_always(Op::Stats, Fault::HeldBefore(Gate::default()));
    let statuses = Arc::new(Mutex::new(Vec::new()));
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let (router, statuses) = (router.clone(), Arc::clone(&statuses));
        crowd.spawn(async move {
            let status = ask(&router, request(&Method::GET, "/api/stats")).await.status;
            statuses.lock().push(status);
        });
    }
    tokio::task::yield_now().await;
    assert_eq!(store.calls(Op::Stats), 16);
    assert_eq!(ask(&router, request(&Method::GET, "/healthz")).await.status, 200);
    assert!(statuses.lock().is_empty());
    crowd.join_all().await;
    assert_eq!(*statuses.lock(), [503; 200]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_given_up() {
    let router = world().await.router;
    let (parts, _) = request(&Method::POST, &format!("/api/records/{ID}/resolve")).into_parts();
    let endless = futures_util::stream::pending::<Result<http_body::Frame<bytes::Bytes>, std::convert::Infallible>>();
    let endless = Body::new(http_body_util::StreamBody::new(endless));
    assert_eq!(ask(&router, Request::from_parts(parts, endless)).await.status, 503);
}
