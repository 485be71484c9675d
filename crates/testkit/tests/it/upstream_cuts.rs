//! Answers of the counting upstream that end too early, and how.

use std::io::ErrorKind;

use oncekey_testkit::{CountingUpstream, RawClient};

/// Sends a POST with these script lines and reads until the connection ends.
async fn to_the_end(upstream: &CountingUpstream, lines: &str) -> (String, std::io::Result<Vec<u8>>) {
    let mut raw = RawClient::connect(upstream.address()).await.unwrap();
    raw.write(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n{lines}\r\n")).await.unwrap();
    let head = raw.read_until("\r\n\r\n").await.unwrap();
    (String::from_utf8(head).unwrap(), raw.read_to_end().await)
}

/// Sends a POST with these script lines and reads an answer that won't come whole.
async fn failure(upstream: &CountingUpstream, lines: &str) -> ErrorKind {
    let mut raw = RawClient::connect(upstream.address()).await.unwrap();
    raw.write(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n{lines}\r\n")).await.unwrap();
    raw.read_answer().await.unwrap_err().kind()
}

#[tokio::test]
async fn a_cut_without_a_place_comes_instead_of_the_answer() {
    let upstream = CountingUpstream::start().await;
    assert_eq!(failure(&upstream, "X-Test-Cut: fin\r\n").await, ErrorKind::UnexpectedEof);
    assert_eq!(failure(&upstream, "X-Test-Cut: rst\r\n").await, ErrorKind::ConnectionReset);
    assert_eq!(upstream.total(), 2, "both were executed all the same");
}

#[tokio::test]
async fn a_cut_body_is_shorter_than_its_length() {
    let upstream = CountingUpstream::start().await;
    let (head, body) =
        to_the_end(&upstream, "X-Test-Cut: fin\r\nX-Test-Cut-After: 10\r\nX-Test-Body-Bytes: 50\r\n").await;
    assert!(head.starts_with("HTTP/1.1 201 Created\r\n") && head.contains("content-length: 50"), "{head}");
    assert_eq!(body.unwrap().len(), 10);
}

#[tokio::test]
async fn a_cut_after_no_bytes_leaves_the_head() {
    let upstream = CountingUpstream::start().await;
    let (head, body) = to_the_end(&upstream, "X-Test-Cut: fin\r\nX-Test-Cut-After: 0\r\n").await;
    assert!(head.contains("content-length"), "{head}");
    assert!(body.unwrap().is_empty());
}

#[tokio::test]
async fn a_reset_body_ends_with_an_error() {
    let upstream = CountingUpstream::start().await;
    let lines = "X-Test-Cut: rst\r\nX-Test-Cut-After: 10\r\nX-Test-Body-Bytes: 50\r\n";
    assert_eq!(failure(&upstream, lines).await, ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_cut_chunked_body_misses_its_last_chunk() {
    let upstream = CountingUpstream::start().await;
    // Even cut after its very end: all the data is there, only the mark of the end isn't.
    let lines = "X-Test-Cut: fin\r\nX-Test-Cut-After: 20\r\nX-Test-Body-Bytes: 20\r\nX-Test-Framing: chunked\r\n";
    let (head, body) = to_the_end(&upstream, lines).await;
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    let body = body.unwrap();
    assert!(body.starts_with(b"14\r\n") && body.len() == 4 + 20 + 2, "{body:?}");
}

#[tokio::test]
async fn a_reset_close_delimited_body_ends_with_an_error() {
    let upstream = CountingUpstream::start().await;
    let lines = "X-Test-Cut: rst\r\nX-Test-Cut-After: 20\r\nX-Test-Body-Bytes: 20\r\nX-Test-Framing: close\r\n";
    assert_eq!(failure(&upstream, lines).await, ErrorKind::ConnectionReset);
}
