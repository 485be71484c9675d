//! HTTP/1.0 clients.

use super::*;

#[tokio::test]
async fn a_connection_is_kept_only_if_asked_for() {
    let (gateway, _told) = Gateway::telling().await;
    let mut client = gateway.client().await;
    client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await;
    let answer = client.message().await;
    assert_eq!((answer.start(), answer.field("connection")), ("http/1.0 200 ok", Some("keep-alive")));
    client.send("GET /b HTTP/1.0\r\n\r\n").await;
    let answer = last_message(&mut client).await;
    assert_eq!((answer.field("connection"), &answer.body[..]), (None, &b"GET - /b "[..]));
}

/// An upstream that answers in chunks, and breaks off if asked for `/cut`.
async fn chunking() -> Gateway {
    Gateway::before_scripted(|_, mut peer| async move {
        let request = peer.message().await;
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
        if !request.start().contains("/cut") {
            peer.send("0\r\n\r\n").await;
        }
    })
    .await
}

#[tokio::test]
async fn a_body_of_unknown_size_ends_with_the_connection() {
    let gateway = chunking().await;
    let mut client = gateway.client().await;
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await;
    let answer =
        Message { head: client.head().await.unwrap(), body: client.rest().await.unwrap(), trailers: String::new() };
    assert_eq!((answer.start(), &answer.body[..]), ("http/1.0 200 ok", &b"hello"[..]));
    assert_eq!((answer.field("transfer-encoding"), answer.field("connection")), (None, None));
}

#[tokio::test]
async fn a_body_cut_short_ends_with_a_reset() {
    let gateway = chunking().await;
    let mut client = gateway.client().await;
    client.send("GET /cut HTTP/1.0\r\n\r\n").await;
    assert!(client.rest().await.is_err(), "an orderly end would say that it is whole");
}

#[tokio::test]
async fn a_refused_request_is_answered_and_closed() {
    let (gateway, _told) = Gateway::telling().await;
    let mut client = gateway.client().await;
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\nHost: a\r\nHost: b\r\n\r\n").await;
    let answer = last_message(&mut client).await;
    assert_eq!((answer.start(), answer.field("connection")), ("http/1.0 400 bad request", None));
}
