//! Each answer that a script can ask of the counting upstream, read from the wire.

use std::collections::HashSet;
use std::time::Duration;

use oncekey_testkit::{Call, Client, CountingUpstream, RawAnswer, RawClient, payload};

/// Sends a POST with these script lines and reads its answer.
async fn scripted(upstream: &CountingUpstream, lines: &str) -> RawAnswer {
    let mut raw = asked(upstream, lines).await;
    raw.read_answer().await.unwrap()
}

/// Sends a POST with these script lines.
async fn asked(upstream: &CountingUpstream, lines: &str) -> RawClient {
    let mut raw = RawClient::connect(upstream.address()).await.unwrap();
    raw.write(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n{lines}\r\nbody")).await.unwrap();
    raw
}

#[tokio::test]
async fn the_status_is_the_scripted_one() {
    let upstream = CountingUpstream::start().await;
    for status in [200, 202, 302, 307, 404, 422, 500, 503] {
        assert_eq!(scripted(&upstream, &format!("X-Test-Status: {status}\r\n")).await.status, status);
    }
}

#[tokio::test]
async fn bodiless_statuses_have_no_body_and_leave_the_connection_usable() {
    let upstream = CountingUpstream::start().await;
    for status in [204, 304] {
        let mut raw = asked(&upstream, &format!("X-Test-Status: {status}\r\n")).await;
        let answer = raw.read_answer().await.unwrap();
        assert_eq!((answer.status, answer.body.len()), (status, 0));
        raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        assert_eq!(raw.read_answer().await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn further_field_lines_come_in_their_order() {
    let upstream = CountingUpstream::start().await;
    let lines =
        "X-Test-Header: Set-Cookie: a=1\r\nX-Test-Header: Set-Cookie: b=2; Path=/\r\nX-Test-Header: Location: /x\r\n";
    let answer = scripted(&upstream, lines).await;
    assert_eq!(answer.values("Set-Cookie"), ["a=1", "b=2; Path=/"]);
    assert_eq!(answer.values("Location"), ["/x"]);
}

#[tokio::test]
async fn a_payload_holds_all_bytes_and_belongs_to_one_execution() {
    let upstream = CountingUpstream::start().await;
    for serial in 1..=2 {
        let answer = scripted(&upstream, "X-Test-Body-Bytes: 100000\r\n").await;
        assert_eq!(answer.body, payload(serial, 100_000));
        assert_eq!(answer.values("content-length"), ["100000"]);
        assert_eq!(answer.body.iter().collect::<HashSet<_>>().len(), 256);
    }
    assert_ne!(payload(1, 100), payload(2, 100));
}

#[tokio::test]
async fn an_echo_is_the_requests_body_and_none_is_none() {
    let upstream = CountingUpstream::start().await;
    assert_eq!(scripted(&upstream, "X-Test-Body: echo\r\n").await.body, b"body");
    let none = scripted(&upstream, "X-Test-Body: none\r\n").await;
    assert_eq!((none.body.len(), none.values("content-length")), (0, vec!["0"]));
}

#[tokio::test]
async fn framing_is_by_length_chunks_or_the_end_of_the_connection() {
    let upstream = CountingUpstream::start().await;
    let length = scripted(&upstream, "X-Test-Framing: length\r\n").await;
    let chunked = scripted(&upstream, "X-Test-Framing: chunked\r\n").await;
    let close = scripted(&upstream, "X-Test-Framing: close\r\n").await;

    assert_eq!(length.values("content-length"), [length.body.len().to_string()]);
    assert_eq!(chunked.values("transfer-encoding"), ["chunked"]);
    assert!(close.values("content-length").is_empty() && close.values("transfer-encoding").is_empty());
    for (serial, answer) in (1..).zip([length, chunked, close]) {
        let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body["serial"], serial);
    }
}

#[tokio::test]
async fn trailers_follow_a_chunked_body() {
    let upstream = CountingUpstream::start().await;
    let lines = "TE: trailers\r\nX-Test-Framing: chunked\r\nX-Test-Trailer: X-Checksum: abc\r\n";
    let answer = scripted(&upstream, lines).await;
    assert_eq!(answer.trailers, [("x-checksum".to_owned(), "abc".to_owned())]);
}

#[tokio::test]
async fn an_interim_answer_comes_before_the_answer() {
    let upstream = CountingUpstream::start().await;
    let mut raw = asked(&upstream, "X-Test-Informational: 103\r\n").await;
    assert_eq!(raw.read_answer().await.unwrap().status, 103);
    assert_eq!(raw.read_answer().await.unwrap().status, 201);
}

#[tokio::test]
async fn events_arrive_before_the_gate_behind_them_opens() {
    let upstream = CountingUpstream::start().await;
    let lines = "X-Test-Body: sse\r\nX-Test-Framing: chunked\r\nX-Test-Body-Gate: rest\r\n";
    let mut raw = asked(&upstream, lines).await;
    let head = String::from_utf8(raw.read_until("\r\n\r\n").await.unwrap()).unwrap();
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    raw.read_until("data: event 1\n\n").await.unwrap();

    upstream.open("rest");
    raw.read_until("data: event 3\n\n\r\n0\r\n\r\n").await.unwrap();
}

#[tokio::test]
async fn a_delay_is_at_least_as_long_as_asked() {
    let upstream = CountingUpstream::start().await;
    let client = Client::new(upstream.address());
    let start = tokio::time::Instant::now();
    client.call(&Call::post("/").header("x-test-delay-ms", "50")).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[tokio::test]
async fn an_upgrade_is_switched_and_echoed() {
    let upstream = CountingUpstream::start().await;
    let mut raw = RawClient::connect(upstream.address()).await.unwrap();
    raw.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n").await.unwrap();
    let answer = raw.read_answer().await.unwrap();
    assert_eq!((answer.status, answer.values("upgrade")), (101, vec!["echo"]));
    raw.write("any bytes\0\n").await.unwrap();
    assert_eq!(raw.read_until("\n").await.unwrap(), b"any bytes\0\n");
    raw.finish().await.unwrap();
    assert!(raw.read_to_end().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_script_that_cannot_be_read_is_a_500_with_a_sentence() {
    let upstream = CountingUpstream::start().await;
    for line in [
        "X-Test-Status: many",
        "X-Test-Body: xml",
        "X-Test-Framing: none",
        "X-Test-Cut: off",
        "X-Test-Cut-After: 3",
        "X-Test-Header: no colon",
    ] {
        let answer = scripted(&upstream, &format!("{line}\r\n")).await;
        let name = line.split(':').next().unwrap().to_lowercase();
        assert_eq!(answer.status, 500, "{line}");
        assert!(String::from_utf8_lossy(&answer.body).to_lowercase().contains(&name), "{line}");
    }
}
