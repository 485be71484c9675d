//! Resolve and purge: what an operator does is what the next claim meets.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use oncekey_core::response::RecordedBody;
use oncekey_core::{Event, RecordId, State};
use oncekey_store::{Claim, Claimed, Found, Outcome, Recorded, Replaces, Store};
use serde_json::json;

use crate::world::{Answer, LEASE, World, claim, response, world};

async fn resolve(world: &World, id: RecordId, body: &str) -> Answer {
    world.send(Method::POST, &format!("/api/records/{id}/resolve"), body).await
}

async fn found(world: &World, id: RecordId) -> Found {
    world.store.read(id).await.unwrap().expect("the record is there")
}

#[tokio::test]
async fn a_completed_verdict_is_what_the_next_claim_finds() {
    let world = world().await;
    let id = world.unknown("k-1").await;
    let verdict = json!({
        "as": "completed",
        "response": {"status": 201, "headers": {"Content-Type": "text/plain", "X-A": "1"}, "body": "made"},
        "reason": "seen in the ledger",
    });
    let answer = resolve(&world, id, &verdict.to_string()).await;
    let retry = "The next retry gets the given response (status 201).";
    let expected = json!({"id": id.to_string(), "state": "completed", "retry": retry});
    assert_eq!((answer.status, answer.json()), (200, expected));

    let Claimed::Held(held) = world.store.claim(claim("acc-1", "k-1")).await.unwrap() else {
        panic!("a resolved operation must not be claimed again");
    };
    assert_eq!(held.record.state, State::Completed);
    let read = found(&world, id).await;
    let headers = [("content-type", "text/plain"), ("x-a", "1")];
    let expected = response(201, &headers, RecordedBody::Stored(Bytes::from_static(b"made")));
    assert_eq!(read.response.as_deref(), Some(&expected));
    assert_eq!(*world.changed.lock(), [id]);
}

#[tokio::test]
async fn a_completed_verdict_fences_the_owners_late_outcome() {
    let world = world().await;
    let id = world.unknown("k-1").await;
    resolve(&world, id, r#"{"as":"completed","response":{"status":200}}"#).await;
    let late = Outcome { event: Event::Complete, response: None };
    let recorded = world.store.record(id, claim("acc-1", "k-1").token, late).await.unwrap();
    assert!(matches!(recorded, Recorded::Fenced(Some(_))));
}

#[tokio::test]
async fn a_failed_verdict_lets_the_next_claim_execute() {
    let world = world().await;
    let id = world.unknown("k-1").await;
    let answer = resolve(&world, id, r#"{"as":"failed"}"#).await;
    let retry = "The next retry of the same request executes again.";
    assert_eq!(answer.json(), json!({"id": id.to_string(), "state": "failed", "retry": retry}));

    let record = found(&world, id).await.record;
    assert_eq!(record.state, State::Failed);
    let replaces = Some(Replaces { token: record.token, state: record.state, expired: false });
    let again = Claim { token: oncekey_core::Token::from_bytes([9; 16]), replaces, ..claim("acc-1", "k-1") };
    assert!(matches!(world.store.claim(again).await.unwrap(), Claimed::Granted { attempt: 2, .. }));
}

#[tokio::test]
async fn a_claim_whose_owner_is_gone_can_be_resolved_before_it_was_swept() {
    let world = world().await;
    let id = world.processing("acc-1", "k-1").await;
    assert_eq!(resolve(&world, id, r#"{"as":"failed"}"#).await.status, 409);
    world.clock.advance(LEASE);
    assert_eq!(resolve(&world, id, r#"{"as":"failed"}"#).await.status, 200);
}

#[tokio::test]
async fn only_unknown_records_are_resolved() {
    let world = world().await;
    let failed = world.ended("k-3", Event::Fail, None).await;
    let cases = [
        (world.processing("acc-1", "k-1").await, "processing"),
        (world.completed("k-2").await, "completed"),
        (failed, "failed"),
    ];
    for (id, state) in cases {
        let before = found(&world, id).await.record;
        for verdict in [r#"{"as":"failed"}"#, r#"{"as":"completed","response":{"status":200}}"#] {
            let answer = resolve(&world, id, verdict).await;
            assert_eq!(answer.status, 409, "{state}");
            assert!(answer.detail().contains(state), "{state}");
        }
        assert_eq!(found(&world, id).await.record, before, "{state}");
    }
}

#[tokio::test]
async fn bodies_headers_and_bytes_are_taken_in_either_spelling() {
    let world = world().await;
    let id = world.unknown("k-1").await;
    let verdict = json!({
        "as": "completed",
        "response": {"status": 200, "headers": [["X-A", "1"], ["x-a", "ü"]], "body_base64": "/wA="},
    });
    assert_eq!(resolve(&world, id, &verdict.to_string()).await.status, 200);
    let expected = response(200, &[], RecordedBody::Stored(Bytes::from_static(b"\xff\x00")));
    let read = found(&world, id).await.response.unwrap();
    assert_eq!(read.body, expected.body);
    let lines: Vec<_> = read.headers.get_all("x-a").iter().map(http::HeaderValue::as_bytes).collect();
    assert_eq!(lines, [b"1".as_slice(), "ü".as_bytes()]);
}

#[tokio::test]
async fn a_response_with_trailers_is_taken_and_shown() {
    let world = world().await;
    let id = world.unknown("k-1").await;
    let trailers =
        json!([["grpc-status", "0"], ["Content-Length", "7"], ["Oncekey-Outcome", "failed"], ["x-sum", "1"]]);
    let verdict = json!({"as": "completed", "response": {"status": 200, "body": "x", "trailers": trailers}});
    assert_eq!(resolve(&world, id, &verdict.to_string()).await.status, 200);
    let shown = world.get(&format!("/api/records/{id}?body=true")).await.json();
    let kept = json!([["grpc-status", "0"], ["x-sum", "1"]]);
    assert_eq!(shown["response"], json!({"status": 200, "headers": [], "body": "x", "trailers": kept}));
}

#[tokio::test]
async fn what_is_not_recorded_of_an_upstream_is_not_taken_from_an_operator() {
    let world = world().await;
    let id = world.unknown("k-1").await;
    let dropped = [
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "X-Hop",
        "Keep-Alive",
        "Upgrade",
        "Date",
        "Set-Cookie",
        "Idempotent-Replayed",
        "Oncekey-Problem",
        "Idempotency-Key",
    ];
    let mut headers: Vec<_> = dropped.map(|name| json!([name, "x-hop"])).to_vec();
    headers.push(json!(["X-A", "1"]));
    let verdict = json!({"as": "completed", "response": {"status": 200, "headers": headers}});
    assert_eq!(resolve(&world, id, &verdict.to_string()).await.status, 200);
    let names: Vec<_> = found(&world, id).await.response.unwrap().headers.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["x-a"]);
}

#[tokio::test]
async fn a_verdict_that_is_not_understood_changes_nothing() {
    let world = world().await;
    let id = world.unknown("k-1").await;
    let long = json!({"as": "failed", "reason": "r".repeat(1001)}).to_string();
    let cases = [
        ("", "as"),
        ("not json", "as"),
        ("[]", "completed"),
        (r#"{"as":"done"}"#, "`completed` or `failed`"),
        (r#"{"as":"failed","by":"me"}"#, "`as`, `response`, `reason`"),
        (r#"{"as":"failed","as":"failed"}"#, "duplicate"),
        (r#"{"as":"completed"}"#, "response"),
        (r#"{"as":"failed","response":{"status":200}}"#, "takes no"),
        (r#"{"as":"completed","response":{}}"#, "status"),
        (r#"{"as":"completed","response":{"status":"200"}}"#, "u16"),
        (r#"{"as":"completed","response":{"status":199}}"#, "200 to 599"),
        (r#"{"as":"completed","response":{"status":600}}"#, "200 to 599"),
        (r#"{"as":"completed","response":{"status":200,"body":"a","body_base64":"YQ=="}}"#, "not both"),
        (r#"{"as":"completed","response":{"status":200,"body_base64":"%"}}"#, "base64"),
        (r#"{"as":"completed","response":{"status":204,"body":"a"}}"#, "no body"),
        (r#"{"as":"completed","response":{"status":200,"headers":{"a b":"c"}}}"#, "a b"),
        (r#"{"as":"completed","response":{"status":200,"headers":{"a":"b\r\nc: d"}}}"#, "header"),
        (r#"{"as":"completed","response":{"status":200,"headers":[["a"]]}}"#, "invalid length"),
        (r#"{"as":"completed","response":{"status":200,"headers":"a: b"}}"#, "[[\"name\",\"value\"]]"),
        (r#"{"as":"completed","response":{"status":200,"body_stored":false}}"#, "`body_base64`"),
        (long.as_str(), "1000"),
    ];
    for (body, hint) in cases {
        let answer = resolve(&world, id, body).await;
        assert_eq!(answer.status, 400, "{body}");
        let detail = answer.detail();
        assert!(detail.contains(hint), "{body}: {detail}");
        assert_eq!(found(&world, id).await.record.state, State::Unknown, "{body}");
    }
    assert!(world.changed.lock().is_empty());
}

#[tokio::test]
async fn a_verdict_has_a_bound() {
    let world = world().await;
    let id = world.unknown("k-1").await;
    let body = "x".repeat(17 * 1024 * 1024);
    let answer =
        resolve(&world, id, &format!(r#"{{"as":"completed","response":{{"status":200,"body":"{body}"}}}}"#)).await;
    assert_eq!(answer.status, 413);
    assert!(answer.detail().contains("16777216"));
    assert_eq!(found(&world, id).await.record.state, State::Unknown);
}

#[tokio::test]
async fn a_response_keeps_its_headers_from_show_to_resolve() {
    let world = world().await;
    let completed = world.completed("k-1").await;
    let unknown = world.unknown("k-2").await;
    let shown = world.get(&format!("/api/records/{completed}?body=true")).await.json();
    let verdict = json!({"as": "completed", "response": shown["response"]});
    assert_eq!(resolve(&world, unknown, &verdict.to_string()).await.status, 200);
    assert_eq!(found(&world, unknown).await.response, found(&world, completed).await.response);
}

#[tokio::test]
async fn purging_removes_what_ended_and_spares_what_runs() {
    let world = world().await;
    let running = world.processing("acc-1", "k-1").await;
    let ended = [world.completed("k-2").await, world.unknown("k-3").await, world.ended("k-4", Event::Fail, None).await];
    for id in ended {
        let answer = world.send(Method::DELETE, &format!("/api/records/{id}"), "").await;
        let retry = "The next request with such a key executes as a new operation.";
        let expected = json!({"id": id.to_string(), "state": null, "retry": retry});
        assert_eq!((answer.status, answer.json()), (200, expected));
        assert!(world.store.read(id).await.unwrap().is_none());
        assert_eq!(world.send(Method::DELETE, &format!("/api/records/{id}"), "").await.status, 404);
    }
    let answer = world.send(Method::DELETE, &format!("/api/records/{running}"), "").await;
    assert_eq!(answer.status, 409);
    assert!(answer.detail().contains("being executed"));
    world.clock.advance(LEASE + Duration::from_secs(1));
    assert_eq!(world.send(Method::DELETE, &format!("/api/records/{running}"), "").await.status, 200);
    assert!(ended.iter().all(|id| world.changed.lock().contains(id)));
}

#[tokio::test]
async fn changing_what_is_not_there_is_404() {
    let world = world().await;
    for id in ["00000000-0000-8000-8000-000000000000", "17"] {
        let path = format!("/api/records/{id}");
        assert_eq!(world.send(Method::DELETE, &path, "").await.status, 404);
        assert_eq!(world.send(Method::POST, &format!("{path}/resolve"), r#"{"as":"failed"}"#).await.status, 404);
    }
}
