//! Requests: what the upstream gets to read.

use http::{HeaderName, HeaderValue};
use tokio::sync::mpsc;

use super::*;
use crate::scripted::Message;

/// Sends a request and returns what arrives.
async fn arrives(request: Request<RequestBody>) -> Message {
    let (seen, mut messages) = mpsc::unbounded_channel();
    let address = upstream(move |_, mut peer| {
        let seen = seen.clone();
        async move {
            seen.send(peer.message().await).unwrap();
            peer.send("HTTP/1.1 204 No Content\r\n\r\n").await;
        }
    })
    .await;
    Subject::at(address).send(request).await.unwrap();
    within(messages.recv()).await.unwrap()
}

fn with(mut request: Request<RequestBody>, fields: &[(&'static str, &'static str)]) -> Request<RequestBody> {
    for (name, value) in fields {
        request.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    request
}

#[tokio::test]
async fn a_keyed_body_is_framed_by_its_length_whatever_the_client_said() {
    let request = keyed(running().await.attempt);
    let request = with(request, &[("transfer-encoding", "chunked"), ("expect", "100-continue")]);
    let message = arrives(request).await;
    assert_eq!(message.start(), "post /orders?a=1 http/1.1");
    assert_eq!(message.field("content-length"), Some("8"));
    assert_eq!(message.field("transfer-encoding"), None);
    assert_eq!(message.field("expect"), None);
    assert_eq!(message.body, b"an order");
}

#[tokio::test]
async fn an_empty_body_is_said_to_be_empty_where_one_is_expected() {
    for (method, length) in [(Method::POST, Some("0")), (Method::PUT, Some("0")), (Method::GET, None)] {
        let message = arrives(unguarded(method, RequestBody::whole(Bytes::new()))).await;
        assert_eq!(message.field("content-length"), length, "{}", message.start());
    }
    let said = with(unguarded(Method::DELETE, RequestBody::whole(Bytes::new())), &[("content-length", "0")]);
    assert_eq!(arrives(said).await.field("content-length"), Some("0"));
}

#[tokio::test]
async fn a_body_of_unknown_size_goes_in_chunks_with_any_method() {
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let (chunks, body) = channel_body();
        chunks.send(Ok(Frame::data(Bytes::from_static(b"streamed")))).await.unwrap();
        drop(chunks);
        let message = arrives(unguarded(method, body)).await;
        assert_eq!(message.field("transfer-encoding"), Some("chunked"));
        assert_eq!(message.body, b"streamed", "{}", message.start());
    }
}

#[tokio::test]
async fn trailers_go_on() {
    let (chunks, body) = channel_body();
    chunks.send(Ok(Frame::data(Bytes::from_static(b"streamed")))).await.unwrap();
    chunks
        .send(Ok(Frame::trailers([("x-sum".parse().unwrap(), "9".parse().unwrap())].into_iter().collect())))
        .await
        .unwrap();
    drop(chunks);
    let request = with(unguarded(Method::POST, body), &[("trailer", "x-sum"), ("te", "gzip, trailers")]);
    let message = arrives(request).await;
    assert_eq!(message.trailers, "x-sum: 9");
    assert_eq!((message.field("te"), message.field("connection")), (Some("trailers"), Some("te")));
}

/// What is recorded must not hang on who asked first (R6).
#[tokio::test]
async fn a_keyed_request_always_asks_for_trailers_and_another_as_its_client_does() {
    let message = arrives(keyed(running().await.attempt)).await;
    assert_eq!((message.field("te"), message.field("connection")), (Some("trailers"), Some("te")));
    let message = arrives(unguarded(Method::POST, RequestBody::whole(Bytes::new()))).await;
    assert_eq!((message.field("te"), message.field("connection")), (None, None));
}

#[tokio::test]
async fn connection_takes_its_fields_away_but_not_what_the_gateway_relies_on() {
    let request = with(
        keyed(running().await.attempt),
        &[
            ("connection", "X-Account-Id, idempotency-key, close, host"),
            ("connection", "x-hop, authorization, content-type, oncekey-attempt, content-length, x-forwarded-for"),
            ("x-account-id", "acc-1"),
            ("idempotency-key", "k-1"),
            ("authorization", "Bearer t"),
            ("content-type", "text/plain"),
            ("oncekey-attempt", "1"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic x"),
            ("upgrade", "websocket"),
        ],
    );
    let message = arrives(request).await;
    for kept in ["x-account-id", "idempotency-key", "authorization", "content-type", "oncekey-attempt", "host"] {
        assert!(message.field(kept).is_some(), "{kept} is gone: {}", message.head);
    }
    assert_eq!(message.field("connection"), Some("te"));
    for gone in ["x-hop", "keep-alive", "proxy-connection", "proxy-authorization", "upgrade"] {
        assert_eq!(message.field(gone), None);
    }
    assert_eq!((message.field("content-length"), message.field("x-forwarded-for")), (Some("8"), Some("192.0.2.1")));
}

#[tokio::test]
async fn the_way_of_a_request_is_told() {
    let message = arrives(unguarded(Method::GET, RequestBody::whole(Bytes::new()))).await;
    assert_eq!(message.field("host"), Some("shop.example"));
    assert_eq!(message.field("x-forwarded-host"), Some("shop.example"));
    assert_eq!(message.field("x-forwarded-proto"), Some("http"));
    assert_eq!(message.field("via"), Some("1.1 oncekey"));
    let known = [("x-forwarded-proto", "https"), ("x-forwarded-host", "outer"), ("via", "1.0 a"), ("via", "1.1 b")];
    let message = arrives(with(unguarded(Method::GET, RequestBody::whole(Bytes::new())), &known)).await;
    assert_eq!(message.field("x-forwarded-proto"), Some("https"));
    assert_eq!(message.field("x-forwarded-host"), Some("outer"));
    assert_eq!(message.field("via"), Some("1.0 a, 1.1 b, 1.1 oncekey"));
}

#[tokio::test]
async fn a_request_without_a_host_gets_the_upstreams() {
    let mut request = unguarded(Method::GET, RequestBody::whole(Bytes::new()));
    request.headers_mut().remove("host");
    *request.version_mut() = http::Version::HTTP_10;
    let message = arrives(request).await;
    assert!(message.field("host").unwrap().starts_with("127.0.0.1:"));
    assert_eq!(message.field("via"), Some("1.0 oncekey"));
    assert!(message.start().ends_with("http/1.1"));
}
