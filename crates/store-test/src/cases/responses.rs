//! Recorded responses come back as they were: status, header lines, body bytes (R1, R5).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use oncekey_core::response::RecordedBody;
use oncekey_core::{Event, RecordedResponse, TraceContext};
use oncekey_store::Outcome;

use crate::{Fixture, held, samples, written};

/// Records `response` and compares every way of getting it back with it.
async fn round_trip(f: &Fixture, key: &str, event: Event, response: Arc<RecordedResponse>) {
    let claim = f.claimed("acc-1", key).await;
    let outcome = Outcome { event, response: Some(response.clone()) };
    written(&f.store.record(claim.identity.id(), claim.token, outcome).await);
    for store in [&f.store, &f.other] {
        let read = store.read(claim.identity.id()).await.expect("read").expect("there");
        assert_eq!(read.response.as_deref(), Some(&*response), "{key}, read");
        assert_eq!(read.record.response_status, Some(response.status.as_u16()), "{key}");
        let met = held(store.claim(samples::claim(&claim.identity, claim.owner)).await);
        assert_eq!(met.response.as_deref(), Some(&*response), "{key}, held");
    }
}

/// Every byte value, nothing at all, and text that isn't UTF-8.
pub async fn bodies_are_kept_to_the_byte(f: Fixture) {
    let all: Vec<u8> = (0..=255).collect();
    let bodies: [(&str, Bytes); 4] = [
        ("all", all.into()),
        ("empty", Bytes::new()),
        ("nul", Bytes::from_static(b"\0")),
        ("latin1", Bytes::from_static(b"caf\xe9")),
    ];
    for (key, body) in bodies {
        round_trip(&f, key, Event::Complete, samples::with_body(body)).await;
    }
}

/// A body that wasn't kept is told from an empty one.
pub async fn a_body_not_stored_is_told_from_an_empty_one(f: Fixture) {
    let mut response = RecordedResponse::clone(&samples::response(""));
    response.body = RecordedBody::NotStored;
    round_trip(&f, "not-stored", Event::Complete, Arc::new(response)).await;
    round_trip(&f, "empty", Event::Complete, samples::response("")).await;
}

/// Repeated lines in their order, values outside ASCII, an empty value, no line at all.
pub async fn header_lines_are_kept(f: Fixture) {
    let mut headers = HeaderMap::new();
    for link in ["</1>; rel=a", "</2>; rel=b", "</1>; rel=a"] {
        headers.append(http::header::LINK, HeaderValue::from_static(link));
    }
    headers.insert(http::header::ETAG, HeaderValue::from_bytes(b"\"\xe9\xff\"").expect("a value"));
    headers.insert(HeaderName::from_static("x-empty"), HeaderValue::from_static(""));
    headers.append(HeaderName::from_static("x-tab"), HeaderValue::from_static("a\tb, c: d"));
    let body = RecordedBody::Stored(Bytes::from_static(b"{}"));
    let response = RecordedResponse { status: StatusCode::OK, headers, body, trailers: HeaderMap::new(), trace: None };
    let bare = RecordedResponse { headers: HeaderMap::new(), ..response.clone() };
    round_trip(&f, "lines", Event::Complete, Arc::new(response)).await;
    round_trip(&f, "none", Event::Complete, Arc::new(bare)).await;
}

/// Trailers, with and without header lines before them and a body (R6).
pub async fn trailers_are_kept(f: Fixture) {
    let mut response = RecordedResponse::clone(&samples::response("x"));
    for sum in ["2", "1", "2", "\u{e9}"] {
        response.trailers.append(HeaderName::from_static("x-sum"), HeaderValue::from_str(sum).expect("a value"));
    }
    response.trailers.insert(HeaderName::from_static("grpc-message"), HeaderValue::from_static(""));
    round_trip(&f, "trailers", Event::Complete, Arc::new(response.clone())).await;
    response.headers.clear();
    response.body = RecordedBody::Stored(Bytes::new());
    round_trip(&f, "trailers-only", Event::Fail, Arc::new(response)).await;
}

/// The span of a traced execution, with and without trailers beside it.
pub async fn the_span_of_an_execution_is_kept(f: Fixture) {
    let mut response = RecordedResponse::clone(&samples::response("x"));
    response.trace = TraceContext::new([7; 16], [9; 8]);
    round_trip(&f, "traced", Event::Complete, Arc::new(response.clone())).await;
    response.trailers.insert(HeaderName::from_static("x-sum"), HeaderValue::from_static("1"));
    round_trip(&f, "traced-trailers", Event::Fail, Arc::new(response)).await;
}

/// Statuses from end to end, also those without a body and without a name.
pub async fn statuses_are_kept(f: Fixture) {
    for status in [200, 201, 204, 302, 304, 404, 422, 500, 599, 799] {
        let mut response = RecordedResponse::clone(&samples::response("x"));
        response.status = StatusCode::from_u16(status).expect("a status");
        round_trip(&f, &format!("status-{status}"), Event::Complete, Arc::new(response)).await;
    }
}

/// The answer after which a retry may run is kept with the failed record.
pub async fn a_failed_record_keeps_its_answer(f: Fixture) {
    round_trip(&f, "failed", Event::Fail, samples::response("try again")).await;
}

/// Ten megabytes.
pub async fn a_large_body_is_kept(f: Fixture) {
    let body: Vec<u8> = (0..10 * 1024 * 1024_u32).map(|n| n.to_le_bytes()[usize::from(n % 7 == 0)]).collect();
    round_trip(&f, "large", Event::Complete, samples::with_body(body.into())).await;
}

/// A late outcome replaces the answer of the failure before it.
pub async fn a_later_answer_replaces_the_earlier(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    let failed = Outcome { event: Event::Fail, response: Some(samples::response("busy")) };
    written(&f.store.record(claim.identity.id(), claim.token, failed).await);
    written(&f.store.record(claim.identity.id(), claim.token, samples::completed("done")).await);
    assert_eq!(f.found(&claim.identity).await.response, Some(samples::response("done")));
}
