//! First answers and their replays, compared as they stand on the wire (R1–R5, R7, E8).

use oncekey_testkit::{CountingUpstream, RawAnswer, payload};

use super::stand::{Gateway, raw_order};

/// The fields of a first answer that a replay doesn't have (R3), and those that the server adds to either.
const NOT_COMPARED: [&str; 9] = [
    "date",
    "age",
    "alt-svc",
    "www-authenticate",
    "authentication-info",
    "proxy-authenticate",
    "proxy-authentication-info",
    "set-cookie",
    "idempotent-replayed",
];

/// The lines that a first answer and its replay must have in common, as sent and in their order.
pub(super) fn compared(answer: &RawAnswer) -> Vec<(String, String)> {
    let counts = |name: &str| !NOT_COMPARED.iter().any(|other| name.eq_ignore_ascii_case(other));
    answer.headers.iter().filter(|(name, _)| counts(name)).cloned().collect()
}

/// The first answer to a request and the second, which must be its replay. Both come on one connection.
async fn twice(gateway: &Gateway, request: &[u8]) -> (RawAnswer, RawAnswer) {
    let mut client = gateway.raw().await;
    client.write(request).await.expect("sent");
    let first = client.read_answer().await.expect("a first answer");
    client.write(request).await.expect("sent");
    let replay = client.read_answer().await.expect("a second answer");
    assert!(first.values("idempotent-replayed").is_empty(), "{first:?}");
    assert_eq!(replay.values("idempotent-replayed"), ["true"], "{replay:?}");
    assert_eq!(first.status, replay.status);
    assert_eq!(compared(&first), compared(&replay));
    assert!(first.body == replay.body, "the bodies differ");
    assert_eq!(first.values("x-serial").len(), 1, "{first:?}");
    (first, replay)
}

#[tokio::test]
async fn every_byte_comes_back_however_the_upstream_frames_it() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    for (number, framing) in ["length", "chunked", "close"].into_iter().enumerate() {
        let lines = ["X-Test-Body-Bytes: 70000", &format!("X-Test-Framing: {framing}")];
        let (first, _) = twice(&gateway, &raw_order(framing, &lines)).await;
        let serial = u32::try_from(number + 1).expect("a small number");
        assert!(first.body == payload(serial, 70_000), "{framing}");
        assert_eq!(first.values("content-length"), ["70000"]);
        assert_eq!(upstream.executions("acc-1", framing), 1);
    }
    gateway.end().await;
}

/// To clients that say that they take any (R6); others get the same without.
#[tokio::test]
async fn trailers_come_with_the_first_answer_and_its_replay() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let script = ["X-Test-Framing: chunked", "X-Test-Trailer: X-Sum: 7", "X-Test-Trailer: Set-Cookie: a=1"];
    let taking = [&script[..], &["TE: trailers", "Connection: TE"]].concat();
    let (first, replay) = twice(&gateway, &raw_order("trailers", &taking)).await;
    for answer in [&first, &replay] {
        assert_eq!(answer.values("trailer"), ["x-sum"], "{answer:?}");
        assert_eq!(answer.trailers, [("x-sum".to_owned(), "7".to_owned())], "{answer:?}");
    }
    let mut client = gateway.raw().await;
    client.write(&raw_order("trailers", &script)).await.expect("sent");
    let without = client.read_answer().await.expect("an answer");
    assert_eq!(without.values("idempotent-replayed"), ["true"]);
    assert!(without.trailers.is_empty() && without.values("trailer").is_empty(), "{without:?}");
    assert!(without.body == first.body);
    assert_eq!(upstream.executions("acc-1", "trailers"), 1);
    gateway.end().await;
}

#[tokio::test]
async fn answers_without_a_body_and_redirects_and_errors_are_replayed_as_they_are() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let statuses = [200, 202, 204, 206, 301, 302, 303, 304, 307, 308, 400, 402, 404, 409, 410, 418, 422, 451, 500, 501];
    for status in statuses {
        let key = format!("status-{status}");
        let lines = [
            &*format!("X-Test-Status: {status}"),
            "X-Test-Header: Location: /orders/1?a=%20b",
            "X-Test-Header: ETag: \"v1\"",
        ];
        let (first, replay) = twice(&gateway, &raw_order(&key, &lines)).await;
        assert_eq!(first.status, status);
        assert_eq!(replay.values("location"), ["/orders/1?a=%20b"]);
        assert_eq!(upstream.executions("acc-1", &key), 1, "{status}");
        if [204, 304].contains(&status) {
            assert!(first.body.is_empty() && first.values("content-length").is_empty(), "{first:?}");
        } else {
            assert!(!first.body.is_empty());
        }
    }
    assert_eq!(upstream.total() as usize, statuses.len(), "no redirect is followed");
    gateway.end().await;
}

#[tokio::test]
async fn empty_bodies_stay_empty_bodies() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    for framing in ["length", "chunked", "close"] {
        let lines = ["X-Test-Body: none", &format!("X-Test-Framing: {framing}")];
        let (first, _) = twice(&gateway, &raw_order(framing, &lines)).await;
        assert_eq!((first.status, first.values("content-length")), (201, vec!["0"]), "{framing}");
    }
    gateway.end().await;
}

#[tokio::test]
async fn repeated_lines_keep_their_order_and_odd_values_their_bytes() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let lines = [
        "X-Test-Header: X-Note: z",
        "X-Test-Header: Link: </a>; rel=prev",
        "X-Test-Header: X-Note: a",
        "X-Test-Header: X-Empty:",
        "X-Test-Header: Link: </b>; rel=next, </c>; rel=last",
        "X-Test-Header: X-Note: z",
        "X-Test-Header: X-Text: na\u{ef}ve \"quoted\" ; , = \t end",
        "X-Test-Header: Vary: Accept",
        "X-Test-Header: Via: 1.0 inner",
        "X-Test-Header: Cache-Control: no-cache",
    ];
    let (_, replay) = twice(&gateway, &raw_order("k", &lines)).await;
    assert_eq!(replay.values("x-note"), ["z", "a", "z"]);
    assert_eq!(replay.values("link"), ["</a>; rel=prev", "</b>; rel=next, </c>; rel=last"]);
    assert_eq!(replay.values("x-empty"), [""]);
    assert_eq!(replay.values("x-text"), ["na\u{ef}ve \"quoted\" ; , = \t end"]);
    assert_eq!(replay.values("via"), ["1.0 inner, 1.1 oncekey"]);
    gateway.end().await;
}

#[tokio::test]
async fn what_was_true_of_the_first_answer_only_is_not_replayed() {
    let upstream = CountingUpstream::start().await;
    let settings = "[defaults]\ndrop_headers = [\"X-Trace\"]\n[[route]]\npath = \"/cookies\"\nstore_set_cookie = true\n[[route]]\n";
    let gateway = Gateway::start(&upstream.url(), settings).await;
    let lines = [
        "X-Test-Header: Date: Sun, 06 Nov 1994 08:49:37 GMT",
        "X-Test-Header: Age: 7",
        "X-Test-Header: Alt-Svc: h3=\":443\"",
        "X-Test-Header: WWW-Authenticate: Basic",
        "X-Test-Header: Authentication-Info: nextnonce=1",
        "X-Test-Header: Set-Cookie: a=1",
        "X-Test-Header: Set-Cookie: b=2; Path=/",
        "X-Test-Header: X-Trace: t-1",
        "X-Test-Header: Connection: X-Hop",
        "X-Test-Header: X-Hop: gone",
        "X-Test-Header: Keep-Alive: timeout=5",
        "X-Test-Header: Idempotent-Replayed: true",
        "X-Test-Header: Oncekey-Problem: outcome-unknown",
        "X-Test-Header: Oncekey-Operation-Id: forged",
        "X-Test-Header: Idempotency-Key: forged",
    ];
    let request = raw_order("k", &lines);
    let (first, replay) = (gateway.exchange(&request).await, gateway.exchange(&request).await);
    assert_eq!(first.values("date"), ["Sun, 06 Nov 1994 08:49:37 GMT"]);
    assert_ne!(replay.values("date"), first.values("date"));
    assert_eq!(first.values("set-cookie"), ["a=1", "b=2; Path=/"]);
    for name in ["age", "alt-svc", "www-authenticate", "authentication-info", "set-cookie", "x-trace"] {
        assert!(!first.values(name).is_empty(), "{name}");
        assert!(replay.values(name).is_empty(), "{name}");
    }
    for answer in [&first, &replay] {
        for name in ["x-hop", "keep-alive", "oncekey-problem"] {
            assert!(answer.values(name).is_empty(), "{name}: {answer:?}");
        }
        assert_eq!(answer.values("idempotency-key"), ["k"]);
        assert_eq!(answer.values("oncekey-operation-id").len(), 1);
        assert_ne!(answer.values("oncekey-operation-id"), ["forged"]);
    }
    assert!(first.values("idempotent-replayed").is_empty());

    let cookies = String::from_utf8(request).expect("text").replace("/orders", "/cookies").replace("Key: k", "Key: c");
    gateway.exchange(&cookies).await;
    let replay = gateway.exchange(&cookies).await;
    assert_eq!(replay.values("set-cookie"), ["a=1", "b=2; Path=/"]);
    gateway.end().await;
}

#[tokio::test]
async fn a_reason_phrase_of_the_upstreams_own_is_the_same_on_a_replay() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut upstream = tokio::task::JoinSet::new();
    upstream.spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut request = Vec::new();
        while !request.ends_with(b"{\"amount\":1200}") {
            stream.read_buf(&mut request).await.expect("a request");
        }
        stream.write_all(b"HTTP/1.1 201 Order Placed\r\nContent-Length: 2\r\n\r\nok").await.expect("answered");
        let _ = stream.read_buf(&mut request).await;
    });
    let gateway = Gateway::start(&format!("http://{address}"), "").await;
    let mut status_lines = Vec::new();
    for _ in 0..2 {
        let mut client = gateway.raw().await;
        client.write(raw_order("k", &[])).await.expect("sent");
        status_lines.push(client.read_until("\r\n").await.expect("a status line"));
    }
    assert_eq!(status_lines[0], status_lines[1]);
    gateway.end().await;
}

#[tokio::test]
async fn events_reach_the_first_client_as_they_come_and_are_not_replayed() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let request = raw_order("k", &["X-Test-Body: sse", "X-Test-Framing: chunked", "X-Test-Body-Gate: rest"]);
    let mut client = gateway.raw().await;
    client.write(&request).await.expect("sent");
    let begun = client.read_until("data: event 1\n\n").await.expect("the first event, before the second is sent");
    let head = String::from_utf8_lossy(&begun).to_lowercase();
    assert!(head.starts_with("http/1.1 201") && head.contains("content-type: text/event-stream"), "{head}");
    upstream.open("rest");
    client.read_until("\r\n0\r\n\r\n").await.expect("the whole stream");

    let retry = gateway.exchange(&request).await;
    assert_eq!((retry.status, retry.values("oncekey-problem")), (409, vec!["response-not-stored"]));
    let problem: serde_json::Value = serde_json::from_slice(&retry.body).expect("JSON");
    assert_eq!(problem["original_status"], 201);
    assert_eq!(problem["retry"], "never");
    assert_eq!(upstream.executions("acc-1", "k"), 1);
    gateway.end().await;
}

#[tokio::test]
async fn an_answer_that_says_try_again_is_delivered_and_the_retry_executes() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    for (status, further) in [(429, "X-Test-Header: X-A: b"), (503, "X-Test-Header: Retry-After: 1")] {
        let key = format!("status-{status}");
        let refused = gateway.exchange(raw_order(&key, &[&format!("X-Test-Status: {status}"), further])).await;
        assert_eq!((refused.status, refused.values("oncekey-problem").len()), (status, 0));
        let retried = gateway.exchange(raw_order(&key, &[])).await;
        assert_eq!((retried.status, retried.values("idempotent-replayed").len()), (201, 0));
        assert_eq!(upstream.executions("acc-1", &key), 2);
    }
    for status in [502, 503, 504] {
        let key = format!("status-{status}");
        let key = if status == 503 { "guess" } else { &key };
        let guess = gateway.exchange(raw_order(key, &[&format!("X-Test-Status: {status}")])).await;
        assert_eq!((guess.status, guess.values("oncekey-problem").len()), (status, 0));
        let retried = gateway.exchange(raw_order(key, &[])).await;
        assert_eq!((retried.status, retried.values("oncekey-problem")), (504, vec!["outcome-unknown"]));
        assert_eq!(upstream.executions("acc-1", key), 1);
    }
    gateway.end().await;
}
