//! Every shape of the API, compared whole: scripts hold on to these names.

use bytes::Bytes;
use http::Method;
use oncekey_core::Event;
use oncekey_core::response::RecordedBody;
use serde_json::{Value, json};

use crate::world::{LEASE, World, response, world};
use std::time::Duration;

fn order(id: &str, state: &str) -> Value {
    json!({
        "id": id,
        "namespace": "default",
        "scope": "acc-1",
        "scope_source": "header:X-Account-Id",
        "key": "k-1",
        "state": state,
        "route": "/orders",
        "method": "POST",
        "path": "/orders",
        "fingerprint": "cd".repeat(32),
        "created_at": "2025-11-30T10:53:20.000000Z",
        "started_at": "2025-11-30T10:53:20.000000Z",
        "completed_at": null,
        "expires_at": null,
        "response_status": null,
        "attempts": 1,
        "replays": 0,
        "owner": "ab".repeat(16),
    })
}

async fn shown(world: &World, id: &str) -> Value {
    let answer = world.get(&format!("/api/records/{id}")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "application/json");
    let mut record = answer.json();
    // Its story is told elsewhere.
    assert!(record.as_object_mut().unwrap().remove("history").is_some_and(|history| history.is_array()));
    record
}

#[tokio::test]
async fn a_processing_record_has_no_end_and_no_expiry() {
    let world = world().await;
    let id = world.processing("acc-1", "k-1").await.to_string();
    assert_eq!(shown(&world, &id).await, order(&id, "processing"));
}

#[tokio::test]
async fn a_completed_record_says_when_it_ended_and_with_which_status() {
    let world = world().await;
    let id = world.completed("k-1").await;
    count_three_replays(&world, id).await;
    let id = id.to_string();
    let mut expected = order(&id, "completed");
    expected["completed_at"] = json!("2025-11-30T10:53:20.000000Z");
    expected["expires_at"] = json!("2025-12-02T10:53:20.000000Z");
    expected["response_status"] = json!(201);
    expected["replays"] = json!(3);
    assert_eq!(shown(&world, &id).await, expected);
}

async fn count_three_replays(world: &World, id: oncekey_core::RecordId) {
    oncekey_store::Store::count_replays(world.store.as_ref(), &[(id, 3)]).await.unwrap();
}

#[tokio::test]
async fn an_unknown_record_has_an_expiry_but_no_end() {
    let world = world().await;
    let id = world.unknown("k-1").await.to_string();
    let mut expected = order(&id, "unknown");
    expected["expires_at"] = json!("2025-12-30T10:53:20.000000Z");
    assert_eq!(shown(&world, &id).await, expected);
}

#[tokio::test]
async fn a_processing_record_whose_owner_is_gone_counts_as_unknown_before_anyone_wrote_it_down() {
    let world = world().await;
    let id = world.processing("acc-1", "k-1").await.to_string();
    world.clock.advance(LEASE);
    let mut expected = order(&id, "unknown");
    // From the claim's deadline, 630 s after it, plus 30 days.
    expected["expires_at"] = json!("2025-12-30T11:03:50.000000Z");
    assert_eq!(shown(&world, &id).await, expected);
}

#[tokio::test]
async fn an_expired_record_is_absent_everywhere_while_the_clock_is_trusted() {
    let world = world().await;
    let id = world.completed("k-1").await;
    world.clock.advance(Duration::from_hours(48));
    assert_eq!(world.get(&format!("/api/records/{id}")).await.status, 404);
    assert_eq!(world.get("/api/records").await.json(), json!({"records": [], "next": null}));

    world.trusts_clock.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(world.get(&format!("/api/records/{id}")).await.status, 200);
}

#[tokio::test]
async fn a_listing_holds_records_as_they_are_shown_alone() {
    let world = world().await;
    let id = world.completed("k-1").await.to_string();
    let listed = world.get("/api/records").await.json();
    assert_eq!(listed, json!({"records": [shown(&world, &id).await], "next": null}));
}

#[tokio::test]
async fn the_response_is_shown_only_where_it_is_asked_for() {
    let world = world().await;
    let id = world.completed("k-1").await;
    for path in [format!("/api/records/{id}"), format!("/api/records/{id}?body=false"), "/api/records".to_owned()] {
        let answer = world.get(&path).await;
        assert!(!answer.text().contains("order_id"), "{path}");
        assert!(answer.json().get("response").is_none(), "{path}");
    }
    let answer = world.get(&format!("/api/records/{id}?body=true")).await.json();
    assert_eq!(answer["state"], "completed");
    assert_eq!(
        answer["response"],
        json!({
            "status": 201,
            "headers": [["content-type", "application/json"], ["x-a", "1"], ["x-a", "2"]],
            "body": "{\"order_id\":1}",
        })
    );
}

#[tokio::test]
async fn a_body_that_is_not_text_is_shown_in_base64_and_one_that_was_not_kept_as_such() {
    let world = world().await;
    let binary = response(200, &[], RecordedBody::Stored(Bytes::from_static(b"\xff\x00")));
    let streamed = response(200, &[], RecordedBody::NotStored);
    let cases = [
        ("k-1", Event::Complete, Some(binary), json!({"status": 200, "headers": [], "body_base64": "/wA="})),
        ("k-2", Event::Complete, Some(streamed), json!({"status": 200, "headers": [], "body_stored": false})),
        ("k-3", Event::WriteOff, None, Value::Null),
    ];
    for (key, event, response, expected) in cases {
        let id = world.ended(key, event, response).await;
        assert_eq!(world.get(&format!("/api/records/{id}?body=true")).await.json()["response"], expected, "{key}");
    }
}

#[tokio::test]
async fn a_parameter_that_a_record_does_not_know_is_refused() {
    let world = world().await;
    let id = world.completed("k-1").await;
    for query in ["body=yes", "body=", "bodies=true", "body=true&body=true"] {
        let answer = world.get(&format!("/api/records/{id}?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.detail().contains("true, false"), "{query}");
    }
}

#[tokio::test]
async fn what_names_no_record_is_404() {
    let world = world().await;
    for id in ["00000000-0000-8000-8000-000000000000", "17", "%ff", "a%2Fb"] {
        for path in [format!("/api/records/{id}"), format!("/api/records/{id}?body=true")] {
            assert_eq!(world.get(&path).await.status, 404, "{path}");
        }
    }
}

#[tokio::test]
async fn stats_count_each_state_and_name_the_lowest_class() {
    let world = world().await;
    world.completed("k-1").await;
    world.unknown("k-2").await;
    let mut stats = world.get("/api/stats").await.json();
    assert!(stats["bytes"].as_u64().unwrap() > 0);
    stats["bytes"] = json!(0);
    assert_eq!(
        stats,
        json!({
            "records": {"processing": 0, "completed": 1, "failed": 0, "unknown": 1},
            "bytes": 0,
            "class": "best_effort",
            "classes": {"/orders": "at_most_once", "/refunds": "best_effort"},
            "store": "memory",
            "version": "1.2.3",
        })
    );
}

#[tokio::test]
async fn hostile_scopes_come_back_as_data() {
    let world = world().await;
    let scope = "<script>alert(1)</script>\u{202e}é\"\\";
    let id = world.processing(scope, "k-1").await;
    let answer = world.get(&format!("/api/records/{id}")).await;
    assert_eq!(answer.json()["scope"], scope);
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
}

#[tokio::test]
async fn a_sweep_says_what_it_deleted_and_what_it_marked() {
    let world = world().await;
    world.completed("k-1").await;
    world.clock.advance(Duration::from_hours(48));
    world.processing("acc-1", "k-2").await;
    let swept = world.send(Method::POST, "/api/sweep", "").await;
    assert_eq!(swept.json(), json!({"deleted": 1, "lapsed": 1}));
    assert_eq!(world.send(Method::POST, "/api/sweep", "{}").await.json(), json!({"deleted": 0, "lapsed": 0}));
}

#[tokio::test]
async fn a_sweep_of_an_empty_store_finds_nothing() {
    let world = world().await;
    assert_eq!(world.send(Method::POST, "/api/sweep", "").await.json(), json!({"deleted": 0, "lapsed": 0}));
}

#[tokio::test]
async fn nothing_is_swept_while_the_clock_is_not_trusted() {
    let world = world().await;
    world.completed("k-1").await;
    world.clock.advance(Duration::from_hours(48));
    world.trusts_clock.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(world.send(Method::POST, "/api/sweep", "").await.status, 503);
    assert_eq!(world.get("/api/records").await.json()["records"].as_array().unwrap().len(), 1);
}
