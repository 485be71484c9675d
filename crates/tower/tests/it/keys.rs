//! The key: where it is looked for, how it is spelled, and that it comes back (rules K).

use http::{HeaderName, Method, Request};
use oncekey_core::KeyFormat;

use crate::bodies::{Untouched, full};
use crate::harness::*;

#[tokio::test(start_paused = true)]
async fn both_spellings_are_one_key_and_each_comes_back_as_it_was_sent() {
    let world = World::of(Upstream::counting()).await;
    for (spelling, replay) in [("\"k-1\"", false), ("k-1", true), ("\"k-1\";a=1", true)] {
        let answer = world.send(order(spelling)).await;
        assert_eq!(answer.status(), 201);
        assert_eq!(answer.body(), "run 1");
        assert_eq!(replayed(&answer), replay, "{spelling}");
        assert_eq!(lines(&answer, "Idempotency-Key"), [spelling]);
        assert_eq!(lines(&answer, "Oncekey-Operation-Id"), [id("k-1").to_string()]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_key_is_refused_before_the_body_is_read() {
    let world = World::of(Upstream::counting()).await;
    let long = "k".repeat(256);
    for key in ["", " ", "\"\"", "a b", "a,b", "\"open", "\"a\" b", &long] {
        let answer = world.send(post(key).body(Untouched(10)).unwrap()).await;
        assert_eq!(problem(&answer), Some("key-invalid"), "{key:?}");
        assert!(lines(&answer, "Idempotency-Key").is_empty(), "{key:?} is no key to give back");
    }
    let answer = world.send(Request::post("/orders").header("Idempotency-Key", &b"k\xff"[..]).body(full("")).unwrap());
    assert_eq!(problem(&answer.await), Some("key-invalid"));
    assert_eq!(world.runs(), 0);
    let longest = "k".repeat(255);
    assert_eq!(world.send(order(&longest)).await.status(), 201);
}

#[tokio::test(start_paused = true)]
async fn two_lines_are_no_key_even_if_they_are_equal_and_none_is_needed() {
    let world = World::of(Upstream::counting()).await;
    for second in ["k", "other"] {
        let answer = world.send(post("k").header("Idempotency-Key", second).body(full("")).unwrap()).await;
        assert_eq!(problem(&answer), Some("key-invalid"), "{second}");
    }
    assert_eq!(world.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_uuid_route_takes_uuids_only_and_compares_them_in_lower_case() {
    let world = Setup::guarded(|guard| guard.key_format = KeyFormat::Uuid4).start(Upstream::counting()).await;
    let upper = "7C9E6679-7425-40DE-944B-E07FC1F90AE7";
    for key in ["k-1", "7c9e6679742540de944be07fc1f90ae7", "7c9e6679-7425-10de-944b-e07fc1f90ae7"] {
        assert_eq!(problem(&world.send(order(key)).await), Some("key-invalid"), "{key}");
    }
    assert!(!replayed(&world.send(order(upper)).await));
    let again = world.send(order(&upper.to_lowercase())).await;
    assert!(replayed(&again));
    assert_eq!(lines(&again, "Idempotency-Key"), [upper.to_lowercase()]);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_required_or_not() {
    let keyless = || Request::post("/orders").header("X-Account-Id", "acc-1").body(full("{}")).unwrap();
    let optional = World::of(Upstream::counting()).await;
    for run in 1..=2 {
        let answer = optional.send(keyless()).await;
        assert_eq!(answer.body(), &format!("run {run}"));
        assert!(lines(&answer, "Oncekey-Operation-Id").is_empty());
    }
    let required = Setup::guarded(|guard| guard.key_required = true).start(Upstream::counting()).await;
    assert_eq!(problem(&required.send(keyless()).await), Some("key-missing"));
    assert_eq!(required.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_renamed_key_field_is_the_only_one_looked_at() {
    let rename = |guard: &mut oncekey_tower::Guard| guard.key_header = HeaderName::from_static("x-request-key");
    let world = Setup::guarded(rename).start(Upstream::counting()).await;
    let request = |name| post("other").header(name, "k-1").body(full("{}")).unwrap();
    assert!(!replayed(&world.send(request("X-Unrelated")).await), "it has no key");
    assert!(!replayed(&world.send(request("X-Request-Key")).await));
    let again = world.send(request("X-Request-Key")).await;
    assert!(replayed(&again));
    assert_eq!(lines(&again, "X-Request-Key"), ["k-1"]);
    assert!(lines(&again, "Idempotency-Key").is_empty());
    assert_eq!(world.seen.lock()[1].headers()["Idempotency-Key"], "other", "it is none of oncekey's business here");
}

#[tokio::test(start_paused = true)]
async fn safe_methods_pass_with_or_without_a_key() {
    let world = World::of(Upstream::counting()).await;
    for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
        for _ in 0..2 {
            let request = post("k-1").method(&method).header("Accept-Encoding", "br").body(full("")).unwrap();
            let answer = world.send(request).await;
            assert!(!replayed(&answer));
            assert!(lines(&answer, "Oncekey-Operation-Id").is_empty());
        }
    }
    assert_eq!(world.runs(), 6);
    assert!(world.seen.lock().iter().all(|request| request.headers()["Accept-Encoding"] == "br"), "untouched");
    assert_eq!(world.state("k-1").await, None);
}

#[tokio::test(start_paused = true)]
async fn an_offer_of_another_version_of_http_does_not_keep_a_keyed_request_from_being_executed() {
    let world = World::of(Upstream::counting()).await;
    for (runs, offer) in [(1, "h2c"), (2, "HTTP/2.0, h2c"), (3, "")] {
        let request = post(&format!("k-{runs}")).header("Upgrade", offer).body(full("{}")).unwrap();
        assert_eq!(problem(&world.send(request).await), None, "{offer}");
        assert_eq!(world.runs(), runs, "{offer}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_answer_to_a_keyed_request_carries_its_key() {
    let world = World::of(Upstream::counting()).await;
    world.send(order("k-1")).await;
    let too_large = post("\"k-1\"").body(Untouched(2 * 1024 * 1024)).unwrap();
    let upgrade = post("\"k-1\"").header("Upgrade", "websocket").body(Untouched(1)).unwrap();
    let other = post("\"k-1\"").body(full("{}")).unwrap();
    let unscoped = Request::post("/orders").header("Idempotency-Key", "\"k-1\"").body(full("{}")).unwrap();
    let answers = [
        (world.send(too_large).await, "body-too-large"),
        (world.send(upgrade).await, "request-invalid"),
        (world.send(other).await, "key-reused"),
        (world.send(unscoped).await, "scope-missing"),
    ];
    for (answer, code) in answers {
        assert_eq!(problem(&answer), Some(code));
        assert_eq!(lines(&answer, "Idempotency-Key"), ["\"k-1\""], "{code}");
    }
}
