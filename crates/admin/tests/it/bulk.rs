//! Changes by filter: what is matched, what is spared, what is said.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use oncekey_admin::{Access, Node, router};
use oncekey_core::{Event, RecordId, State};
use oncekey_store::Store;
use oncekey_store_test::{Fault, FaultyStore, Op};
use serde_json::{Value, json};

use crate::world::{Answer, World, options, world};

const EXECUTES: &str = "The next retry of the same request executes again.";
const NEW: &str = "The next request with such a key executes as a new operation.";

async fn bulk(world: &World, what: &str, body: &Value) -> Answer {
    world.send(Method::POST, &format!("/api/records/{what}"), &body.to_string()).await
}

async fn state(world: &World, id: RecordId) -> Option<State> {
    world.store.read(id).await.unwrap().map(|found| found.record.state)
}

#[tokio::test]
async fn a_dry_run_counts_and_names_and_says_what_a_retry_would_get_and_changes_nothing() {
    let world = world().await;
    let unknown = world.unknown("k-1").await;
    world.completed("k-2").await;
    let resolve = json!({"filter": {"scope": "acc-1"}, "as": "failed", "dry_run": true});
    let expected = json!({"matched": 1, "changed": 0, "ids": [unknown.to_string()], "more": false, "retry": EXECUTES});
    assert_eq!(bulk(&world, "resolve", &resolve).await.json(), expected);
    let completed = json!({
        "filter": {"scope": "acc-1"}, "as": "completed", "response": {"status": 201, "body": "x"}, "dry_run": true,
    });
    let retry = "The next retry gets the given response (status 201).";
    assert_eq!(bulk(&world, "resolve", &completed).await.json()["retry"], retry);
    let purge = json!({"filter": {"scope": "acc-1"}, "dry_run": true});
    let purged = bulk(&world, "purge", &purge).await.json();
    assert_eq!((&purged["matched"], &purged["changed"], &purged["retry"]), (&json!(2), &json!(0), &json!(NEW)));
    assert_eq!(state(&world, unknown).await, Some(State::Unknown));
    assert!(world.changed.lock().is_empty());
    assert_eq!(world.get("/api/audit").await.json()["audit"], json!([]), "a dry run leaves no line");
}

#[tokio::test]
async fn resolving_by_filter_settles_unknown_records_only() {
    let world = world().await;
    let (first, second) = (world.unknown("k-1").await, world.unknown("k-2").await);
    let completed = world.completed("k-3").await;
    let running = world.processing("acc-2", "k-4").await;
    let verdict = json!({
        "filter": {"scope": "acc-1", "state": "unknown"}, "as": "completed",
        "response": {"status": 200, "body": "settled"}, "reason": "seen in the ledger",
    });
    let answer = bulk(&world, "resolve", &verdict).await.json();
    assert_eq!((&answer["matched"], &answer["changed"]), (&json!(2), &json!(2)));
    assert_eq!(answer["ids"], json!([second.to_string(), first.to_string()]));
    for id in [first, second] {
        let shown = world.get(&format!("/api/records/{id}?body=true")).await.json();
        assert_eq!((&shown["state"], &shown["response"]["body"]), (&json!("completed"), &json!("settled")));
        assert!(world.changed.lock().contains(&id), "this node's cache forgets it");
    }
    assert_eq!(state(&world, completed).await, Some(State::Completed));
    assert_eq!(state(&world, running).await, Some(State::Processing));
    let again = bulk(&world, "resolve", &verdict).await.json();
    assert_eq!((&again["matched"], &again["changed"]), (&json!(0), &json!(0)), "repeated, nothing is left to do");
}

#[tokio::test]
async fn purging_by_filter_spares_what_runs() {
    let world = world().await;
    let running = world.processing("acc-1", "k-1").await;
    let failed = world.ended("k-2", Event::Fail, None).await;
    let answer = bulk(&world, "purge", &json!({"filter": {"scope": "acc-1"}})).await.json();
    let expected = json!({"matched": 1, "changed": 1, "ids": [failed.to_string()], "more": false, "retry": NEW});
    assert_eq!(answer, expected);
    assert_eq!((state(&world, failed).await, state(&world, running).await), (None, Some(State::Processing)));
}

#[tokio::test]
async fn a_filter_that_matches_everything_is_refused_unless_it_is_said() {
    let world = world().await;
    world.unknown("k-1").await;
    for (filter, hint) in [
        (json!({}), "\"all\": true"),
        (json!({"filter": {}}), "\"all\": true"),
        (json!({"filter": {"namespace": "default"}}), "\"all\": true"),
        (json!({"filter": null, "all": false}), "\"all\": true"),
        (json!({"filter": {"scope": ""}}), "`filter.scope` is empty"),
        (json!({"filter": {"scope": "acc-1"}, "all": true}), "contradict"),
        (json!({"filter": {"scope": "acc-1", "kee": "k"}}), "unknown field `kee`"),
        (json!({"filter": {"state": "done"}}), "processing, completed, failed, unknown"),
        (json!({"filter": {"older_than": "long"}}), "48h"),
        (json!({"filter": {"scope": 7}}), "expected a string"),
        (json!({"all": true, "reason": "r".repeat(1001)}), "1000"),
        (json!({"all": true, "dryrun": true}), "unknown field `dryrun`"),
        (json!({"all": true, "dry_run": "yes"}), "expected a boolean"),
        (json!([]), "\"dry_run\": true"),
    ] {
        let mut resolve = filter.clone();
        if let Some(members) = resolve.as_object_mut() {
            members.insert("as".to_owned(), json!("failed"));
        }
        for (what, body) in [("purge", &filter), ("resolve", &resolve)] {
            let answer = bulk(&world, what, body).await;
            assert_eq!(answer.status, 400, "{what} {body}");
            assert!(answer.detail().contains(hint), "{what} {body}: {}", answer.detail());
        }
    }
    assert_eq!(world.get("/api/audit").await.json()["audit"], json!([]));
    let purged = bulk(&world, "purge", &json!({"all": true})).await.json();
    assert_eq!(purged["changed"], 1);
}

#[tokio::test]
async fn a_verdict_for_many_is_checked_like_one_for_one_and_its_response_is_small() {
    let world = world().await;
    let id = world.unknown("k-1").await;
    for (members, hint) in [
        (json!({}), "missing field `as`"),
        (json!({"as": "completed"}), "response"),
        (json!({"as": "failed", "response": {"status": 200}}), "takes no"),
        (json!({"as": "completed", "response": {"status": 99}}), "200 to 599"),
        (json!({"as": "completed", "response": {"status": 200, "body": "x".repeat(65_537)}}), "65536"),
        (json!({"as": "failed", "filter": {"state": "completed"}}), "Only unknown records"),
    ] {
        let mut body = json!({"filter": {"scope": "acc-1"}});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let answer = bulk(&world, "resolve", &body).await;
        assert_eq!(answer.status, 400, "{members}");
        assert!(answer.detail().contains(hint), "{members}: {}", answer.detail());
    }
    assert_eq!(state(&world, id).await, Some(State::Unknown));
}

#[tokio::test]
async fn a_call_changes_ten_thousand_records_and_the_next_goes_on() {
    let world = world().await;
    for number in 0..10_001 {
        world.unknown(&format!("k-{number}")).await;
    }
    let purge = json!({"filter": {"state": "unknown"}});
    let first = bulk(&world, "purge", &purge).await.json();
    assert_eq!((&first["matched"], &first["changed"], &first["more"]), (&json!(10_000), &json!(10_000), &json!(true)));
    assert_eq!(first["ids"].as_array().unwrap().len(), 100);
    let second = bulk(&world, "purge", &purge).await.json();
    assert_eq!((&second["matched"], &second["changed"], &second["more"]), (&json!(1), &json!(1), &json!(false)));
}

/// The same node, seen through a store that fails.
fn faulty(world: &World) -> (Arc<FaultyStore>, axum::Router) {
    let store = Arc::new(FaultyStore::new(Arc::clone(&world.store) as Arc<_>));
    let node = Node {
        changed: Box::new(|_| {}),
        trusts_clock: Box::new(|| true),
        believes: Box::new(|_| true),
        mismatches: Box::new(|_| Vec::new()),
    };
    (Arc::clone(&store), router(options(store as Arc<_>, Access::Loopback, node).1))
}

async fn send(router: &axum::Router, path: &str, body: &Value) -> Answer {
    let request = http::Request::builder().method(Method::POST).uri(path).header("host", "localhost");
    let request = request.header("content-type", "application/json").body(axum::body::Body::from(body.to_string()));
    crate::world::ask(router, request.unwrap()).await
}

#[tokio::test]
async fn records_that_change_between_looking_and_acting_are_left_and_not_counted() {
    let world = world().await;
    let (kept, purged) = (world.unknown("k-1").await, world.unknown("k-2").await);
    let (store, router) = faulty(&world);
    let gate = store.hold_before(Op::Purge);
    let acting = AtomicBool::new(true);
    let purge = async {
        let answer = send(&router, "/api/records/purge", &json!({"filter": {"state": "unknown"}})).await;
        acting.store(false, Ordering::Relaxed);
        answer
    };
    let meanwhile = async {
        gate.reached().await;
        assert!(acting.load(Ordering::Relaxed), "it has looked, and waits to act");
        let verdict = r#"{"as":"completed","response":{"status":200}}"#;
        assert_eq!(world.send(Method::POST, &format!("/api/records/{kept}/resolve"), verdict).await.status, 200);
        gate.open();
    };
    let (answer, ()) = tokio::join!(purge, meanwhile);
    let answer = answer.json();
    assert_eq!((&answer["matched"], &answer["changed"]), (&json!(2), &json!(1)));
    assert_eq!(answer["ids"], json!([purged.to_string()]));
    assert_eq!(state(&world, kept).await, Some(State::Completed));
}

#[tokio::test]
async fn a_store_that_fails_midway_leaves_told_what_was_changed_and_the_same_call_goes_on() {
    let world = world().await;
    for number in 0..150 {
        world.unknown(&format!("k-{number}")).await;
    }
    let (store, router) = faulty(&world);
    let gate = store.hold_after(Op::Purge);
    gate.open();
    store.fail_next(Op::Purge, Fault::ReplyLost);
    let purge = json!({"filter": {"state": "unknown"}});
    let failed = send(&router, "/api/records/purge", &purge).await;
    assert_eq!(failed.status, 503);
    assert!(failed.detail().contains("100 of 150 records were changed"), "{}", failed.detail());
    let rest = send(&router, "/api/records/purge", &purge).await.json();
    assert_eq!(rest["changed"], 0, "the lost acknowledgement was of a change that was made");
    let lines = world.get("/api/audit?limit=1000").await.json();
    assert_eq!(lines["audit"].as_array().unwrap().len(), 150, "each record has its one line");
}

#[tokio::test]
async fn an_age_goes_by_the_claim() {
    let world = world().await;
    let old = world.completed("old").await;
    world.clock.advance(Duration::from_mins(10));
    let young = world.completed("young").await;
    let answer = bulk(&world, "purge", &json!({"filter": {"older_than": "5m", "scope": "acc-1"}})).await.json();
    assert_eq!(answer["ids"], json!([old.to_string()]));
    assert_eq!(state(&world, young).await, Some(State::Completed));
}
