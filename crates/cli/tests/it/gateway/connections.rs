//! Kept-alive connections stay clean behind answers that oncekey gives by itself (H3), and what clients of other habits
//! get: `Expect`, HTTP/1.0, a half-closed connection.

use oncekey_testkit::{CountingUpstream, RawClient};

use super::stand::{Gateway, order, raw_order};

/// Reads the answer to a request that was sent behind another, and sees that it is the upstream's own.
async fn assert_follower_is_answered(client: &mut RawClient) {
    let answer = client.read_answer().await.expect("an answer to the follower");
    assert_eq!((answer.status, answer.values("oncekey-problem").len()), (200, 0), "{answer:?}");
    assert!(String::from_utf8_lossy(&answer.body).contains("\"key\":\"\""), "{answer:?}");
}

const FOLLOWER: &[u8] = b"GET /after HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn a_request_pipelined_behind_an_answer_of_oncekeys_own_is_answered_rightly() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "[defaults]\nmax_request = \"8KiB\"\n").await;
    gateway.send(&order("k")).await;
    let head = "POST /orders HTTP/1.1\r\nHost: a\r\nX-Account-Id: acc-1\r\nIdempotency-Key: k\r\n";
    let long = "x".repeat(20_000);
    for (what, request, status, problem) in [
        ("a replay", raw_order("k", &[]), 201, None),
        ("a mismatch", format!("{head}Content-Length: 3\r\n\r\n{{ }}").into_bytes(), 409, Some("key-reused")),
        (
            "no scope",
            b"POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\n{}".to_vec(),
            400,
            Some("scope-missing"),
        ),
        ("too large", format!("{head}Content-Length: 20000\r\n\r\n{long}").into_bytes(), 413, Some("body-too-large")),
        (
            "too large in chunks",
            format!("{head}Transfer-Encoding: chunked\r\n\r\n4e20\r\n{long}\r\n0\r\n\r\n").into_bytes(),
            413,
            Some("body-too-large"),
        ),
    ] {
        let mut client = gateway.raw().await;
        client.write([&request, FOLLOWER].concat()).await.expect("sent");
        let answer = client.read_answer().await.expect("an answer");
        assert_eq!((answer.status, answer.values("oncekey-problem").first().copied()), (status, problem), "{what}");
        assert!(answer.values("connection").is_empty(), "{what}: {answer:?}");
        assert_follower_is_answered(&mut client).await;
    }
    gateway.end().await;
}

#[tokio::test]
async fn behind_a_refused_body_too_long_to_be_read_the_connection_closes_and_nothing_of_it_is_run() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let mut client = gateway.raw().await;
    // The body that follows looks like requests.
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n".repeat(40_000);
    let head = format!(
        "POST /orders HTTP/1.1\r\nHost: a\r\nX-Account-Id: acc-1\r\nIdempotency-Key: k\r\nContent-Length: {}\r\n\r\n",
        smuggled.len()
    );
    client.write(head).await.expect("sent");
    // The gateway may close while this is written; what counts is that the answer arrives.
    let _ = client.write(&smuggled).await;
    let answer = client.read_answer().await.expect("an answer");
    assert_eq!((answer.status, answer.values("connection")), (413, vec!["close"]));
    assert!(client.read_to_end().await.is_ok_and(|rest| rest.is_empty()));
    assert_eq!(upstream.total(), 0);
    gateway.end().await;
}

#[tokio::test]
async fn who_asks_before_sending_is_told_no_without_a_100_and_yes_with_one() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let head = "POST /orders HTTP/1.1\r\nHost: a\r\nX-Account-Id: acc-1\r\nExpect: 100-continue\r\n";
    let mut refused = gateway.raw().await;
    refused.write(format!("{head}Idempotency-Key: big\r\nContent-Length: 2000000\r\n\r\n")).await.expect("sent");
    let answer = refused.read_answer().await.expect("an answer");
    assert_eq!((answer.status, answer.values("oncekey-problem")), (413, vec!["body-too-large"]));
    assert_eq!(refused.read_to_end().await.expect("an end"), b"");

    let mut asked = gateway.raw().await;
    asked.write(format!("{head}Idempotency-Key: k\r\nContent-Length: 2\r\n\r\n")).await.expect("sent");
    assert_eq!(asked.read_answer().await.expect("an interim answer").status, 100);
    assert_eq!(upstream.total(), 0, "nothing is executed before the body is there");
    asked.write("{}").await.expect("sent");
    assert_eq!(asked.read_answer().await.expect("an answer").status, 201);
    assert!(!upstream.arrivals()[0].headers.contains_key("expect"));
    gateway.end().await;
}

#[tokio::test]
async fn a_client_of_http_1_0_gets_its_answer_and_its_replay_and_the_end_of_the_connection() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let request = String::from_utf8(raw_order("k", &["X-Test-Framing: chunked"])).expect("text");
    let request = request.replace("HTTP/1.1", "HTTP/1.0");
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut client = gateway.raw().await;
        client.write(&request).await.expect("sent");
        let bytes = client.read_to_end().await.expect("an end in order");
        let text = String::from_utf8(bytes).expect("UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.0 201") || head.starts_with("HTTP/1.1 201"), "{head}");
        assert!(!head.to_lowercase().contains("transfer-encoding"), "{head}");
        answers.push((head.to_lowercase(), body.to_owned()));
    }
    assert_eq!(answers[0].1, answers[1].1);
    assert!(!answers[0].0.contains("idempotent-replayed") && answers[1].0.contains("idempotent-replayed: true"));
    assert_eq!(upstream.executions("acc-1", "k"), 1);

    // One without a Host, and one that asks to be kept: both may.
    let mut client = gateway.raw().await;
    client.write("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await.expect("sent");
    let head = String::from_utf8(client.read_until("\r\n\r\n").await.expect("a head")).expect("UTF-8");
    assert!(head.contains(" 200 "), "{head}");
    gateway.end().await;
}

#[tokio::test]
async fn head_and_get_and_options_pass_with_a_key_and_are_executed_each_time() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    for method in ["HEAD", "GET", "OPTIONS"] {
        let request =
            format!("{method} /orders HTTP/1.1\r\nHost: a\r\nX-Account-Id: acc-1\r\nIdempotency-Key: {method}\r\n\r\n");
        let mut client = gateway.raw().await;
        for _ in 0..2 {
            client.write(&request).await.expect("sent");
            let answer = match method {
                "HEAD" => client.read_answer_to_head().await,
                _ => client.read_answer().await,
            };
            let answer = answer.expect("an answer");
            assert_eq!(answer.status, 200);
            assert_ne!(answer.values("content-length"), ["0"], "{method}");
            for name in ["idempotent-replayed", "oncekey-operation-id", "oncekey-problem"] {
                assert!(answer.values(name).is_empty(), "{method}: {answer:?}");
            }
        }
        assert_eq!(upstream.executions("acc-1", method), 2, "{method}");
    }
    gateway.end().await;
}

#[tokio::test]
async fn a_client_that_ends_its_side_after_the_request_gets_the_answer() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let mut client = gateway.raw().await;
    client.write(raw_order("k", &["X-Test-Gate: g"])).await.expect("sent");
    client.finish().await.expect("ended");
    upstream.arrived(1).await;
    upstream.open("g");
    assert_eq!(client.read_answer().await.expect("an answer").status, 201);
    gateway.end().await;
}
