//! Answers given before the body was read, and clients that end their side (H3, E3).

use super::*;

fn post(size: usize) -> String {
    format!("POST /orders HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n")
}

#[tokio::test]
async fn an_answer_reaches_a_client_that_first_sends_all_it_has() {
    let gateway = Gateway::refusing().await;
    let mut client = gateway.client().await;
    let upload = vec![b'x'; 20 * 1024 * 1024];
    client.send(post(upload.len())).await;
    client.send(&upload).await;
    let answer = last_message(&mut client).await;
    assert_eq!(answer.start(), "http/1.1 413 payload too large");
    assert_eq!(answer.field("connection"), Some("close"));
}

#[tokio::test]
async fn it_does_so_even_if_the_client_offers_to_change_protocol_beside() {
    let gateway = Gateway::refusing().await;
    let mut client = gateway.client().await;
    let upload = vec![b'x'; 20 * 1024 * 1024];
    let offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA";
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{offer}\r\nContent-Length: {}\r\n\r\n", upload.len())).await;
    client.send(&upload).await;
    assert_eq!(last_message(&mut client).await.start(), "http/1.1 413 payload too large");
}

#[tokio::test]
async fn a_small_unread_body_is_read_on_and_not_taken_for_a_request() {
    let gateway = Gateway::refusing().await;
    let mut client = gateway.client().await;
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(post(smuggled.len())).await;
    client.send(smuggled).await;
    client.send(GET).await;
    assert_eq!(client.message().await.start(), "http/1.1 413 payload too large");
    assert_eq!(client.message().await.start(), "http/1.1 200 ok");
    // Behind it comes the answer to this one, and not another's.
    client.send(post(3)).await;
    client.send("abc").await;
    assert_eq!(client.message().await.start(), "http/1.1 413 payload too large");
}

#[tokio::test]
async fn a_small_unread_body_in_chunks_is_read_on() {
    let gateway = Gateway::refusing().await;
    let mut client = gateway.client().await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n").await;
    client.send("3\r\ndef\r\n0\r\n\r\n").await;
    client.send(GET).await;
    let answer = client.message().await;
    assert_eq!((answer.start(), answer.field("connection")), ("http/1.1 413 payload too large", None));
    assert_eq!(client.message().await.start(), "http/1.1 200 ok");
}

#[tokio::test]
async fn behind_a_large_unread_body_the_connection_ends() {
    let gateway = Gateway::refusing().await;
    let mut client = gateway.client().await;
    client.send(post(100_000)).await;
    client.send(vec![b'x'; 100_000]).await;
    client.send(GET).await;
    let answer = last_message(&mut client).await;
    assert_eq!(answer.field("connection"), Some("close"));
}

#[tokio::test]
async fn a_body_that_does_not_come_holds_its_answer_back_for_a_moment_only() {
    let gateway = Gateway::refusing().await;
    let mut client = gateway.client().await;
    client.send(post(10)).await;
    let answer = last_message(&mut client).await;
    assert_eq!(answer.start(), "http/1.1 413 payload too large");
}

#[tokio::test]
async fn a_client_that_waits_for_100_gets_the_answer_instead() {
    let gateway = Gateway::refusing().await;
    let mut client = gateway.client().await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n").await;
    let answer = last_message(&mut client).await;
    assert_eq!((answer.start(), answer.field("connection")), ("http/1.1 413 payload too large", Some("close")));
}

#[tokio::test]
async fn a_client_that_waits_for_100_gets_it_once_its_body_is_wanted() {
    let (gateway, _told) = Gateway::telling().await;
    let mut client = gateway.client().await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n").await;
    assert_eq!(client.head().await.unwrap(), "http/1.1 100 continue");
    client.send("abc").await;
    assert_eq!(client.message().await.body, b"POST a / abc");
}

#[tokio::test]
async fn a_client_that_ends_its_side_still_gets_its_answer() {
    let (gateway, _told) = Gateway::telling().await;
    let mut client = gateway.client().await;
    client.send(format!("{}abc", post(3))).await;
    client.end().await;
    assert_eq!(last_message(&mut client).await.body, b"POST a /orders abc");
}

#[tokio::test]
async fn a_client_that_ends_its_side_too_early_is_refused() {
    let (gateway, mut told) = Gateway::telling().await;
    let mut client = gateway.client().await;
    client.send(format!("{}ab", post(3))).await;
    client.end().await;
    assert_eq!(last_message(&mut client).await.start(), "http/1.1 400 bad request");
    assert!(told.try_recv().is_err());
}

#[tokio::test]
async fn a_panic_ends_its_connection_and_no_other() {
    let service = tower::service_fn(|request: Request<ClientBody>| async move {
        assert_ne!(request.uri().path(), "/panic", "asked to panic");
        Ok::<_, BodyError>(Response::new(ResponseBody::whole(Bytes::new())))
    });
    let gateway = Gateway::serving(service).await;
    let mut other = gateway.client().await;
    let mut client = gateway.client().await;
    client.send("GET /panic HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(client.try_message().await.is_none());
    other.send(GET).await;
    assert_eq!(other.message().await.start(), "http/1.1 200 ok");
    assert_eq!(gateway.ask(GET).await.start(), "http/1.1 200 ok");
}
