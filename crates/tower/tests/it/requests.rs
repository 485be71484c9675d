//! What the inner service gets: of keyed requests (E11, R4), and of all others (K6, K7).

use bytes::Bytes;
use http::{HeaderName, Request, Response};
use http_body_util::BodyExt;
use oncekey_engine::{Attempt, NotExecuted};
use oncekey_store::{ManualClock, MemoryStore};
use oncekey_store_test::{FaultyStore, START};
use oncekey_tower::{BodyError, RequestBody};
use std::sync::Arc;
use tower::{Layer, ServiceExt};

use crate::bodies::{all_bytes, fed, full, pieces};
use crate::harness::*;

#[tokio::test(start_paused = true)]
async fn it_gets_the_request_with_the_operation_the_attempt_and_no_encoding() {
    let world = Setup::default()
        .start(Upstream::new(|number| async move {
            if number == 0 { Err(NotExecuted::because("the test says so").into()) } else { Ok(created("")) }
        }))
        .await;
    let request = || {
        post("\"k-1\"")
            .uri("/orders?b=2&a=1")
            .header("X-Twice", "2")
            .header("X-Twice", "1")
            .header("Accept-Encoding", "gzip, br")
            .header("Oncekey-Operation-Id", "mine")
            .header("Oncekey-Operation-Id", "mine too")
            .header("Oncekey-Attempt", "7")
            .body(pieces([Ok(all_bytes()), Ok(Bytes::new()), Ok(all_bytes())]))
            .unwrap()
    };
    assert_eq!(world.send(request()).await.status(), 502);
    assert_eq!(world.send(request()).await.status(), 201);
    for (index, request) in world.seen.lock().iter().enumerate() {
        let field = |name: &str| request.headers().get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(request.uri(), "/orders?b=2&a=1");
        assert_eq!(field("Idempotency-Key"), ["\"k-1\""], "as sent");
        assert_eq!(field("X-Account-Id"), ["acc-1"]);
        assert_eq!(field("X-Twice"), ["2", "1"]);
        assert_eq!(field("Accept-Encoding"), ["identity"]);
        assert_eq!(field("Oncekey-Operation-Id"), [&id("k-1").to_string()]);
        assert_eq!(field("Oncekey-Attempt"), [&(index + 1).to_string()]);
        assert_eq!(request.body(), &[all_bytes(), all_bytes()].concat());
        let attempt = request.extensions().get::<Attempt>().unwrap();
        assert_eq!((attempt.id, attempt.number as usize), (id("k-1"), index + 1));
    }
}

#[tokio::test(start_paused = true)]
async fn it_gets_a_derived_key_under_further_names_the_same_on_every_attempt() {
    let names = ["idempotence-key", "x-request-id"].map(HeaderName::from_static);
    let setup = Setup::guarded(|guard| guard.forward_key_as = names.to_vec());
    let world = setup.start(Upstream::answering(|| Response::builder().status(429).body(full("")).unwrap())).await;
    let request = |account: &str| {
        let request = Request::post("/orders").header("Idempotency-Key", "abc").header("X-Account-Id", account);
        request.header("Idempotence-Key", "mine").header("Idempotence-Key", "too").body(full("")).unwrap()
    };
    for account in ["acc-1", "acc-1", "acc-2"] {
        assert_eq!(world.send(request(account)).await.status(), 429);
    }
    let seen = world.seen.lock();
    let sent = |number: usize, name: &str| seen[number].headers().get_all(name).iter().cloned().collect::<Vec<_>>();
    for number in [0, 1] {
        assert_eq!(sent(number, "Idempotency-Key"), ["abc"]);
        for name in ["Idempotence-Key", "X-Request-Id"] {
            assert_eq!(sent(number, name), ["0461b51f-6dcf-4c20-a31d-d3b5d0381b4e"], "of acc-1 and abc");
        }
    }
    assert_ne!(sent(2, "Idempotence-Key"), sent(0, "Idempotence-Key"), "another scope is another operation");
}

#[tokio::test(start_paused = true)]
async fn a_keyed_body_has_a_known_length_inside() {
    let clock = Arc::new(ManualClock::at(START));
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(clock.clone()))));
    let (layer, _) = Setup::default().layer(store, clock).await;
    let inner = tower::service_fn(|request: Request<RequestBody>| async move {
        let exact = http_body::Body::size_hint(request.body()).exact();
        Ok::<_, BodyError>(Response::new(full(format!("{exact:?}"))))
    });
    let request = post("k").body(pieces([Ok("ab".into()), Ok("cde".into())])).unwrap();
    let answer = layer.layer(inner).oneshot(request).await.unwrap();
    assert_eq!(whole(answer).await.body(), "Some(5)");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_keyed_streams_through_both_ways_untouched() {
    let clock = Arc::new(ManualClock::at(START));
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(clock.clone()))));
    let (layer, _) = Setup::default().layer(store, clock).await;
    let echo = tower::service_fn(|request: Request<RequestBody>| async move {
        let (head, body) = request.into_parts();
        let mut answer = Response::new(body);
        *answer.headers_mut() = head.headers;
        Ok::<_, BodyError>(answer)
    });
    let mut service = layer.layer(echo);
    for (path, fields) in [("/orders", &[][..]), ("/else", &[("Idempotency-Key", "k"), ("Idempotency-Key", "l")][..])] {
        let sent =
            [("Oncekey-Attempt", "7"), ("Accept-Encoding", "br"), ("Oncekey-Problem", "theirs"), ("Connection", "x")];
        let request = Request::post(path);
        let request = sent.iter().chain(fields).fold(request, |request, (name, value)| request.header(*name, *value));
        let (feed, body) = fed();
        let request = request.body(body).unwrap();
        let headers = request.headers().clone();
        let answer = call(&mut service, request).await.await.unwrap();
        assert_eq!(answer.headers(), &headers);
        let mut body = answer.into_body();
        for piece in ["first", "second"] {
            feed.send(Ok(piece.into())).unwrap();
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), piece, "before the body has ended");
        }
        feed.send(Err("cut".into())).unwrap();
        assert_eq!(body.frame().await.unwrap().unwrap_err().to_string(), "cut");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_an_unkeyed_request_is_its_callers() {
    let world = World::of(Upstream::new(|_| async { Err("broken".into()) })).await;
    let request = Request::post("/else").body(full("")).unwrap();
    assert_eq!(world.service.clone().oneshot(request).await.err().unwrap().to_string(), "broken");
}
