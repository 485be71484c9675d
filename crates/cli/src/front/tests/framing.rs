//! Requests that could be read in two ways (H1), and targets.

use std::time::Duration;

use super::*;

/// Each is refused with 400 and closed, without the service having seen it or what follows it.
async fn assert_refused(requests: &[&str]) {
    let (gateway, mut told) = Gateway::telling().await;
    for request in requests {
        let mut client = gateway.client().await;
        client.send(request).await;
        // Whoever doesn't refuse it would take this for the next request.
        client.try_send(GET).await;
        let answer = last_message(&mut client).await;
        assert!(answer.start().ends_with(" 400 bad request"), "{request:?}: {}", answer.start());
        assert!(told.try_recv().is_err(), "{request:?} was served");
    }
}

#[tokio::test]
async fn a_request_with_two_hosts_or_none_is_refused() {
    assert_refused(&[
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
    ])
    .await;
}

#[tokio::test]
async fn a_length_that_is_not_one_number_is_refused() {
    assert_refused(&[
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
    ])
    .await;
}

#[tokio::test]
async fn a_transfer_coding_other_than_chunked_is_refused() {
    assert_refused(&[
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ])
    .await;
}

#[tokio::test]
async fn heads_that_break_the_grammar_are_refused() {
    assert_refused(&[
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: nul\0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: cr\rX-B: 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    ])
    .await;
}

#[tokio::test]
async fn targets_that_are_no_path_are_refused() {
    assert_refused(&[
        "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ])
    .await;
}

#[tokio::test]
async fn chunks_that_break_their_framing_are_refused() {
    let (gateway, mut told) = Gateway::telling().await;
    for chunks in [
        "5\r\nhelloXX\r\n0\r\n\r\n",
        "-1\r\n\r\n",
        "0x1\r\na\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n",
        "\r\n",
    ] {
        let mut client = gateway.client().await;
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{GET}")).await;
        let answer = last_message(&mut client).await;
        assert_eq!(answer.start(), "http/1.1 400 bad request", "{chunks:?}");
        assert_eq!(answer.field("oncekey-problem"), Some("request-invalid"));
        assert_eq!(answer.field("connection"), Some("close"));
        assert!(told.try_recv().is_err(), "{chunks:?} was served");
    }
}

#[tokio::test]
async fn a_refusal_is_a_problem() {
    let (gateway, _told) = Gateway::telling().await;
    let answer = gateway.ask("GET / HTTP/1.1\r\n\r\n").await;
    assert_eq!(answer.field("content-type"), Some("application/problem+json"));
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(problem["code"], "request-invalid");
    assert_eq!(problem["status"], 400);
}

#[tokio::test]
async fn with_both_framings_the_chunks_count_and_nothing_that_follows_is_run() {
    let (gateway, mut told) = Gateway::telling().await;
    for framings in
        ["Content-Length: 2\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 2"]
    {
        let mut client = gateway.client().await;
        client.send(format!("POST /first HTTP/1.1\r\nHost: a\r\n{framings}\r\n\r\n5\r\nhello\r\n0\r\n\r\n{GET}")).await;
        let answer = last_message(&mut client).await;
        assert_eq!(answer.start(), "http/1.1 200 ok");
        assert_eq!(answer.field("connection"), Some("close"));
        assert_eq!(told.recv().await.unwrap(), "POST a /first hello");
        assert!(told.try_recv().is_err(), "the second request was run");
    }
}

#[tokio::test]
async fn equal_lengths_are_one_length() {
    let (gateway, mut told) = Gateway::telling().await;
    gateway.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc").await;
    assert_eq!(told.recv().await.unwrap(), "POST a / abc");
}

#[tokio::test]
async fn requests_behind_each_other_are_answered_in_order() {
    let (gateway, _told) = Gateway::telling().await;
    let mut client = gateway.client().await;
    client.send(format!("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n1{GET}{GET}")).await;
    assert_eq!(client.message().await.body, b"POST h /a 1");
    assert_eq!(client.message().await.body, b"GET shop.example /next ");
    assert_eq!(client.message().await.body, b"GET shop.example /next ");
}

#[tokio::test]
async fn an_absolute_target_brings_its_own_host() {
    let (gateway, mut told) = Gateway::telling().await;
    gateway.ask("GET http://inner:81/p?q=1 HTTP/1.1\r\nHost: outer\r\n\r\n").await;
    assert_eq!(told.recv().await.unwrap(), "GET inner:81 /p?q=1 ");
    gateway.ask("GET http://inner HTTP/1.1\r\nHost: outer\r\n\r\n").await;
    assert_eq!(told.recv().await.unwrap(), "GET inner / ");
}

#[tokio::test]
async fn options_may_ask_about_everything() {
    let (gateway, mut told) = Gateway::telling().await;
    gateway.ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(told.recv().await.unwrap(), "OPTIONS a * ");
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let (gateway, _told) = Gateway::telling().await;
    let mut client = gateway.client().await;
    client.try_send(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n", "x".repeat(200_000))).await;
    assert_eq!(last_message(&mut client).await.start(), "http/1.1 431 request header fields too large");
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let options =
        FrontOptions { head_timeout: Duration::from_millis(50), idle_timeout: Duration::from_millis(50), ..options() };
    let service = tower::service_fn(|_| async { Ok::<_, BodyError>(Response::new(ResponseBody::whole(Bytes::new()))) });
    let gateway = Gateway::with(service, options, Drain::new()).await;
    let mut slow = gateway.client().await;
    slow.send("GET / HTTP/1.1\r\nHo").await;
    assert_eq!(slow.rest().await.unwrap(), b"");
    let mut idle = gateway.client().await;
    idle.send(GET).await;
    idle.message().await;
    assert_eq!(idle.rest().await.unwrap(), b"");
}
