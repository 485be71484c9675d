//! An upstream that speaks HTTP/2, behind clients that don't: the same answers, the same bytes, and what can't be passed on.

use futures_util::future::join_all;
use oncekey_testkit::{Call, CountingUpstream, payload};

use super::answers::compared;
use super::stand::{Gateway, bodies_take_little_memory, order, raw_order};

const TWO: &str = "upstream_http = \"2\"\n";

#[tokio::test]
async fn first_answers_and_replays_agree_whatever_frames_they_came_in() {
    let upstream = CountingUpstream::start_http2().await;
    let gateway = Gateway::start(&upstream.url(), TWO).await;
    for (key, lines) in [
        ("length", &["X-Test-Body-Bytes: 70000"][..]),
        ("no-length", &["X-Test-Body-Bytes: 70000", "X-Test-Framing: chunked"]),
        ("empty", &["X-Test-Body: none"]),
        ("no-content", &["X-Test-Status: 204"]),
        ("redirect", &["X-Test-Status: 302", "X-Test-Header: Location: /orders/1"]),
        ("error", &["X-Test-Status: 500", "X-Test-Header: Set-Cookie: a=1"]),
        ("interim", &["X-Test-Informational: 103"]),
        ("lines", &["X-Test-Header: X-Note: z", "X-Test-Header: X-Note: a"]),
    ] {
        let first = gateway.exchange(raw_order(key, lines)).await;
        let replay = gateway.exchange(raw_order(key, lines)).await;
        assert_eq!(replay.values("idempotent-replayed"), ["true"], "{key}: {replay:?}");
        assert_eq!((first.status, compared(&first)), (replay.status, compared(&replay)), "{key}");
        assert!(first.body == replay.body, "{key}: the bodies differ");
        assert_eq!(first.values("via"), ["2.0 oncekey"]);
        assert_eq!(upstream.executions("acc-1", key), 1);
    }
    let whole = gateway.exchange(raw_order("length", &["X-Test-Body-Bytes: 70000"])).await;
    assert!(whole.body == payload(1, 70_000));
    gateway.end().await;
}

#[tokio::test]
async fn many_at_once_are_executed_once_each() {
    let upstream = CountingUpstream::start_http2().await;
    let gateway = Gateway::start(&upstream.url(), TWO).await;
    let calls: Vec<Call> = (0..200).map(|number| order(&format!("k-{number}"))).collect();
    let twice = async |call| tokio::join!(gateway.send(call), gateway.send(call));
    for (one, other) in join_all(calls.iter().map(twice)).await {
        assert_eq!((one.status, other.status), (201.try_into().expect("a status"), 201.try_into().expect("a status")));
        assert_eq!(one.body, other.body);
    }
    assert_eq!(upstream.total(), 200);
    gateway.end().await;
}

#[tokio::test]
async fn trailers_pass_and_a_body_goes_up_with_its_own() {
    let upstream = CountingUpstream::start_http2().await;
    let gateway = Gateway::start(&upstream.url(), TWO).await;
    let request = "PUT /a HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\nTransfer-Encoding: chunked\r\n\
                   Trailer: X-Up\r\nX-Test-Body: echo\r\nX-Test-Framing: chunked\r\nX-Test-Trailer: X-Sum: 42\r\n\r\n\
                   4\r\nbody\r\n0\r\nX-Up: 1\r\n\r\n";
    let answer = gateway.exchange(request).await;
    assert_eq!((answer.status, &answer.body[..]), (200, &b"body"[..]));
    assert_eq!(answer.trailers, [("x-sum".to_owned(), "42".to_owned())]);
    gateway.end().await;
}

/// Also where the first client didn't ask for them (R6).
#[tokio::test]
async fn trailers_of_a_keyed_answer_are_recorded() {
    let upstream = CountingUpstream::start_http2().await;
    let gateway = Gateway::start(&upstream.url(), TWO).await;
    let script = ["X-Test-Framing: chunked", "X-Test-Trailer: X-Sum: 42"];
    let first = gateway.exchange(raw_order("k", &script)).await;
    assert!(first.trailers.is_empty(), "{first:?}");
    let asking = [&script[..], &["TE: trailers", "Connection: TE"]].concat();
    let replay = gateway.exchange(raw_order("k", &asking)).await;
    assert_eq!(replay.values("idempotent-replayed"), ["true"]);
    assert_eq!(replay.trailers, [("x-sum".to_owned(), "42".to_owned())]);
    assert_eq!(upstream.total(), 1);
    gateway.end().await;
}

#[tokio::test]
async fn an_upgrade_is_refused_where_http_2_is_spoken() {
    let upstream = CountingUpstream::start_http2().await;
    let gateway = Gateway::start(&upstream.url(), TWO).await;
    let request = "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    let refused = gateway.exchange(request).await;
    assert_eq!((refused.status, refused.values("oncekey-problem")), (502, vec!["upstream-unreachable"]));
    assert_eq!(upstream.total(), 0);
    gateway.end().await;
}

#[tokio::test]
async fn an_upstream_that_speaks_the_other_http_executes_nothing() {
    let one = CountingUpstream::start().await;
    let gateway = Gateway::start(&one.url(), TWO).await;
    let answer = gateway.send(&order("k")).await;
    assert_eq!((answer.status.as_u16(), answer.problem()), (502, Some("upstream-unreachable")));
    assert_eq!(one.total(), 0);
    gateway.end().await;
}

#[tokio::test]
async fn large_bodies_stream_both_ways_through_little_memory() {
    let upstream = CountingUpstream::start_http2().await;
    let gateway = Gateway::start(&upstream.url(), TWO).await;
    bodies_take_little_memory(&gateway).await;
    gateway.end().await;
}
