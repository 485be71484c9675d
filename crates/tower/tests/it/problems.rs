//! Every problem to the letter: status, fields, JSON (rules P, W2).

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{Request, Response};
use oncekey_engine::NotExecuted;
use oncekey_store_test::{Fault, Op};
use serde_json::{Value, json};

use crate::bodies::{Short, Untouched, full, pieces};
use crate::harness::*;

/// What a problem must be.
struct Expected {
    status: u16,
    code: &'static str,
    title: &'static str,
    retry: &'static str,
    /// Whether a `Retry-After` is due.
    later: bool,
    /// The key as it was sent, if it was one.
    key: Option<&'static str>,
    /// Whether the record is named.
    record: bool,
}

/// Of a problem about a record, whose key was sent as `"k"`.
const fn about(status: u16, code: &'static str, title: &'static str, retry: &'static str) -> Expected {
    Expected { status, code, title, retry, later: false, key: Some("\"k\""), record: true }
}

/// Of a request that was refused for what it is.
const fn refused(status: u16, code: &'static str, title: &'static str, key: Option<&'static str>) -> Expected {
    Expected { status, code, title, retry: "new-key", later: false, key, record: false }
}

/// Checks all of an answer, and gives its detail and the members beyond the common ones.
fn assert_problem(answer: &Response<Bytes>, expected: &Expected) -> (String, Option<Value>) {
    assert_eq!(answer.status(), expected.status, "{}", expected.code);
    let mut fields = vec![
        ("content-type", "application/problem+json".to_owned()),
        ("cache-control", "no-store".to_owned()),
        ("oncekey-problem", expected.code.to_owned()),
    ];
    fields.extend(expected.later.then(|| ("retry-after", "2".to_owned())));
    fields.extend(expected.key.map(|key| ("idempotency-key", key.to_owned())));
    fields.extend(expected.record.then(|| ("oncekey-operation-id", id("k").to_string())));
    let there = answer.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap().to_owned()));
    assert_eq!(there.collect::<BTreeSet<_>>(), fields.into_iter().collect(), "{}", expected.code);

    let mut json: Value = serde_json::from_slice(answer.body()).unwrap();
    let members = json.as_object_mut().unwrap();
    let detail = members.remove("detail").unwrap().as_str().unwrap().to_owned();
    assert!(detail.ends_with('.') && detail.len() > 20, "{detail}");
    let original_status = members.remove("original_status");
    let mut common = json!({
        "type": format!("urn:oncekey:problem:{}", expected.code),
        "title": expected.title,
        "status": expected.status,
        "code": expected.code,
        "retry": expected.retry,
    });
    if expected.record {
        common["operation_id"] = id("k").to_string().into();
    }
    assert_eq!(json, common);
    (detail, original_status)
}

fn keyed() -> Request<crate::bodies::TestBody> {
    order("\"k\"")
}

#[tokio::test(start_paused = true)]
async fn of_the_key_and_the_scope() {
    let world = Setup::guarded(|guard| guard.key_required = true).start(Upstream::counting()).await;
    let keyless = world.send(Request::post("/orders").body(full("")).unwrap()).await;
    let (detail, _) = assert_problem(&keyless, &refused(400, "key-missing", "Idempotency key missing", None));
    assert!(detail.contains("Idempotency-Key"), "{detail}");
    let invalid = world.send(post("a b").body(full("")).unwrap()).await;
    assert_problem(&invalid, &refused(400, "key-invalid", "Idempotency key invalid", None));
    let unscoped = Request::post("/orders").header("Idempotency-Key", "\"k\"");
    let unscoped = world.send(unscoped.body(Untouched(1)).unwrap()).await;
    let (detail, _) = assert_problem(&unscoped, &refused(400, "scope-missing", "Scope missing", Some("\"k\"")));
    assert!(detail.contains("header:X-Account-Id"), "{detail}");
    let twice = world.send(post("\"k\"").header("X-Account-Id", "acc-2").body(Untouched(1)).unwrap()).await;
    assert_problem(&twice, &refused(400, "scope-invalid", "Scope invalid", Some("\"k\"")));
}

#[tokio::test(start_paused = true)]
async fn of_the_request_itself() {
    let world = World::of(Upstream::counting()).await;
    let expected = refused(400, "request-invalid", "Request invalid", Some("\"k\""));
    for protocol in ["websocket", "h2c, websocket", "custom/2"] {
        let upgrade = world.send(post("\"k\"").header("Upgrade", protocol).body(Untouched(1)).unwrap()).await;
        assert_problem(&upgrade, &expected);
    }
    // It may be a retry: with a new key its operation would be executed again.
    let expected = Expected { retry: "same-key", ..expected };
    let cut = world.send(post("\"k\"").body(pieces([Ok("{".into()), Err("cut")])).unwrap()).await;
    let (detail, _) = assert_problem(&cut, &expected);
    assert!(detail.contains("nothing was executed"), "{detail}");
    let short = Short { says: 15, gives: Some("{\"amount\":12".into()) };
    assert_problem(&world.send(post("\"k\"").body(short).unwrap()).await, &expected);
    let too_large = world.send(post("\"k\"").body(Untouched(1024 * 1024 + 1)).unwrap()).await;
    let expected = refused(413, "body-too-large", "Request body too large", Some("\"k\""));
    let (detail, _) = assert_problem(&too_large, &expected);
    assert!(detail.contains("1048576"), "{detail}");
    assert_eq!((world.runs(), world.state("k").await), (0, None));
}

#[tokio::test(start_paused = true)]
async fn of_a_key_that_belongs_to_another_request() {
    let world = World::of(Upstream::counting()).await;
    world.send(keyed()).await;
    let other = world.send(post("\"k\"").body(full(r#"{"amount":1300}"#)).unwrap()).await;
    assert_problem(&other, &about(409, "key-reused", "Idempotency key used for another request", "new-key"));
}

#[tokio::test(start_paused = true)]
async fn of_a_response_that_was_not_stored() {
    let world = Setup::governed(|policy| policy.recording.max_response = 3).start(Upstream::counting()).await;
    world.send(keyed()).await;
    let again = world.send(keyed()).await;
    let (_, original) = assert_problem(&again, &about(409, "response-not-stored", "Response not stored", "never"));
    assert_eq!(original, Some(201.into()));
}

#[tokio::test(start_paused = true)]
async fn of_an_upstream_that_can_not_be_reached() {
    let world = World::of(Upstream::new(|_| async { Err(NotExecuted::because("refused").into()) })).await;
    let expected = Expected { later: true, ..about(502, "upstream-unreachable", "Upstream unreachable", "same-key") };
    let (detail, _) = assert_problem(&world.send(keyed()).await, &expected);
    assert!(detail.contains("this request was not executed"), "{detail}");
}

#[tokio::test(start_paused = true)]
async fn of_an_outcome_that_nobody_knows() {
    let world = World::of(Upstream::new(|_| async { Err("reset".into()) })).await;
    for _ in 0..2 {
        let expected = about(504, "outcome-unknown", "Outcome unknown", "same-key");
        let (detail, _) = assert_problem(&world.send(keyed()).await, &expected);
        assert!(detail.contains("do not repeat it under a new key"), "{detail}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_store_that_fails() {
    let world = World::of(Upstream::counting()).await;
    world.store.fail_next(Op::Claim, Fault::NotApplied);
    let expected = Expected { later: true, ..about(503, "store-unavailable", "Store unavailable", "same-key") };
    let (detail, _) = assert_problem(&world.send(keyed()).await, &expected);
    // Of this request it is certain; an earlier one with the same key may have taken effect.
    assert!(detail.starts_with("This request was not executed"), "{detail}");
    world.store.fail_next(Op::Claim, Fault::Corrupt);
    let expected = about(500, "record-unreadable", "Record unreadable", "never");
    assert_problem(&world.send(keyed()).await, &expected);
    assert_eq!(world.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn of_too_many_bodies() {
    let setup = Setup { budget: 300 * 1024, ..Setup::default() };
    let world = setup.start(Upstream::new(|_| std::future::pending())).await;
    let large = |key| post(key).body(full(vec![0; 150 * 1024])).unwrap();
    let _runs = world.spawn(large("other"));
    settle().await;
    let expected = Expected { later: true, record: false, ..about(503, "overloaded", "Overloaded", "same-key") };
    let (detail, _) = assert_problem(&world.send(large("\"k\"")).await, &expected);
    assert!(detail.contains("Nothing was executed"), "{detail}");
}

#[tokio::test(start_paused = true)]
async fn what_still_runs_is_an_acceptance_to_the_letter() {
    let world = World::of(Upstream::new(|_| std::future::pending())).await;
    let first = world.spawn(keyed());
    settle().await;
    for answer in [world.send(keyed()).await, first.await.unwrap()] {
        assert_eq!(answer.status(), 202);
        let body = format!(r#"{{"detail":"Processing","status":"processing","operation_id":"{}"}}"#, id("k"));
        assert_eq!(answer.body(), &body);
        let fields: BTreeSet<_> =
            answer.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let id = id("k").to_string();
        let expected: [(&str, &[u8]); 6] = [
            ("content-type", b"application/json"),
            ("cache-control", b"no-store"),
            ("retry-after", b"2"),
            ("oncekey-problem", b"in-progress"),
            ("idempotency-key", b"\"k\""),
            ("oncekey-operation-id", id.as_bytes()),
        ];
        assert_eq!(fields, BTreeSet::from(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_in_whole_seconds_and_never_zero() {
    for (millis, seconds) in [(0, "1"), (300, "1"), (1000, "1"), (1001, "2"), (90_000, "90")] {
        let policy = |policy: &mut oncekey_core::policy::Policy| {
            policy.timing.retry_after = std::time::Duration::from_millis(millis);
        };
        let world = Setup::governed(policy).start(Upstream::counting()).await;
        world.store.fail_next(Op::Claim, Fault::NotApplied);
        assert_eq!(lines(&world.send(keyed()).await, "Retry-After"), [seconds], "{millis} ms");
    }
}
