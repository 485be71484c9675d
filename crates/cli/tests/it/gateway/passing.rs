//! What the gateway lets pass: bodies of any size both ways without buffering them, upgrades, trailers, interim answers
//! (K7, H4).

use oncekey_testkit::{CountingUpstream, payload};

use super::stand::{Gateway, bodies_take_little_memory};

#[tokio::test]
async fn large_bodies_stream_both_ways_through_little_memory() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    bodies_take_little_memory(&gateway).await;
    gateway.end().await;
}

#[tokio::test]
async fn ten_megabytes_come_through_unguarded_as_they_are() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    for framing in ["length", "chunked", "close"] {
        let request =
            format!("GET /f HTTP/1.1\r\nHost: a\r\nX-Test-Body-Bytes: 10485760\r\nX-Test-Framing: {framing}\r\n\r\n");
        let answer = gateway.exchange(request).await;
        assert!(answer.body == payload(upstream.total(), 10_485_760), "{framing}");
    }
    gateway.end().await;
}

const UPGRADE: &str = "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n";

#[tokio::test]
async fn an_upgrade_passes_unguarded_and_bytes_then_go_both_ways() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let mut client = gateway.raw().await;
    client.write(format!("{UPGRADE}\r\n")).await.expect("sent");
    let head = String::from_utf8(client.read_until("\r\n\r\n").await.expect("a head")).expect("UTF-8").to_lowercase();
    assert!(head.starts_with("http/1.1 101") && head.contains("upgrade: echo"), "{head}");
    for message in ["one", "GET / HTTP/1.1\r\n\r\n", "three"] {
        client.write(message).await.expect("sent");
        assert_eq!(client.read_until(message).await.expect("an echo"), message.as_bytes());
    }
    client.finish().await.expect("ended");
    assert_eq!(client.read_to_end().await.expect("ended by the other side too"), b"");
    gateway.end().await;
}

#[tokio::test]
async fn a_keyed_request_that_asks_for_an_upgrade_is_refused() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let upgrade = UPGRADE.replace("GET", "POST");
    let keyed = format!("{upgrade}X-Account-Id: acc-1\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n");
    let refused = gateway.exchange(keyed).await;
    assert_eq!((refused.status, refused.values("oncekey-problem")), (400, vec!["request-invalid"]));
    assert_eq!(refused.values("idempotency-key"), ["k"]);
    assert_eq!(upstream.total(), 0);
    gateway.end().await;
}

#[tokio::test]
async fn interim_answers_do_not_stand_for_the_answer_and_trailers_pass() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let mut client = gateway.raw().await;
    let request = "GET /a HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\nX-Test-Informational: 103\r\n\
                   X-Test-Framing: chunked\r\nX-Test-Trailer: X-Sum: 42\r\n\r\n";
    client.write(request).await.expect("sent");
    let mut answer = client.read_answer().await.expect("an answer");
    while answer.status < 200 {
        answer = client.read_answer().await.expect("an answer");
    }
    assert_eq!(answer.status, 200);
    assert_eq!(answer.trailers, [("x-sum".to_owned(), "42".to_owned())]);
    gateway.end().await;
}
