//! What a probe sends, and what it makes of each answer, against a peer that answers byte by byte.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use oncekey_core::policy::Policy;
use oncekey_core::{Key, Namespace, Scope};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

fn identity(key: &str) -> Identity {
    let scope = Scope::new("header:X-Account-Id", "acc-1").expect("a scope");
    Identity { namespace: Namespace::default(), scope, key: Key::from_decoded(key).expect("a key") }
}

fn asker(url: &str, change: impl FnOnce(&mut Policy)) -> Asker {
    let mut policy = Policy::default();
    change(&mut policy);
    let url: ProbeUrl = url.parse().expect("a template");
    let fields = HeaderMap::from_iter([("x-probe".parse().expect("a name"), HeaderValue::from_static("yes"))]);
    let client = client(&url, policy.timing.connect_timeout).expect("a client");
    let key_header = HeaderName::from_static("idempotency-key");
    Asker { client, url, fields, key_header, policy: Arc::new(policy), turns: Semaphore::new(1) }
}

/// Asks a peer that answers with these bytes and closes; gives what it was sent, in lower case, and what it was taken for.
async fn exchange(answer: &str, change: impl FnOnce(&mut Policy)) -> (String, Probed) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let asker = asker(&format!("http://{address}/by-key/{{scope}}/{{key}}"), change);
    let peer = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a request"));
        }
        stream.write_all(answer.as_bytes()).await.expect("written");
        stream.shutdown().await.expect("closed");
        // A reset would overtake what was written.
        let _ = stream.read_to_end(&mut Vec::new()).await;
        String::from_utf8(head).expect("text").to_ascii_lowercase()
    };
    let id = identity("k/1");
    tokio::join!(peer, asker.ask(&id))
}

async fn probed(answer: &str) -> Probed {
    exchange(answer, |_| {}).await.1
}

fn stored(probed: Probed) -> (u16, HeaderMap, Option<Bytes>) {
    let Probed::Completed(response) = probed else { panic!("no outcome: {probed:?}") };
    let body = match &response.body {
        RecordedBody::Stored(bytes) => Some(bytes.clone()),
        RecordedBody::NotStored => None,
    };
    (response.status.as_u16(), response.headers.clone(), body)
}

fn unclear(probed: Probed) -> String {
    let Probed::Unclear(reason) = probed else { panic!("it is taken for clear: {probed:?}") };
    reason
}

#[tokio::test]
async fn it_is_a_get_with_the_fields_that_were_named_and_no_others() {
    let (sent, _) = exchange("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", |_| {}).await;
    let mut lines: Vec<_> = sent.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.remove(0), "get /by-key/acc-1/k%2f1 http/1.1");
    lines.retain(|line| !line.starts_with("host: 127.0.0.1:"));
    lines.sort_unstable();
    assert_eq!(lines, ["accept-encoding: identity", "accept: */*", "x-probe: yes"]);
}

#[tokio::test]
async fn a_success_is_the_outcome_recorded_as_any_answer_is() {
    let answer = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nDate: Tue, 01 Dec 2026 10:00:00 GMT\r\n\
                  Set-Cookie: a=b\r\nIdempotent-Replayed: true\r\nOncekey-Outcome: failed\r\nX-Order: 7\r\n\
                  Content-Length: 7\r\n\r\n{\"o\":7}";
    let (status, headers, body) = stored(probed(answer).await);
    assert_eq!((status, body.as_deref()), (201, Some(&b"{\"o\":7}"[..])));
    let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-type", "x-order"]);
}

#[tokio::test]
async fn only_a_404_says_that_there_is_nothing() {
    let of = |status: &str| format!("HTTP/1.1 {status} X\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n");
    assert!(matches!(probed(&of("404")).await, Probed::Absent));
    for status in ["301", "302", "308", "400", "401", "403", "405", "410", "429", "500", "502", "503", "504"] {
        assert_eq!(unclear(probed(&of(status)).await), format!("it was answered with {status}"));
    }
}

#[tokio::test]
async fn an_outcome_that_is_not_whole_is_none() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"o\":",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"o\":\r\n",
    ] {
        let reason = unclear(probed(answer).await);
        assert!(reason.starts_with("its answer was cut short"), "{reason}");
    }
    unclear(probed("HTTP/1.1 200").await);
    unclear(probed("").await);
}

#[tokio::test]
async fn an_outcome_that_is_too_large_to_be_kept_is_recorded_without_its_body() {
    let small = |policy: &mut Policy| policy.recording.max_response = 4;
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlarge",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nlarge\r\n0\r\n\r\n",
    ] {
        let (_, probed) = exchange(answer, small).await;
        assert_eq!(stored(probed).2, None);
    }
    let (_, probed) = exchange("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfits", small).await;
    assert_eq!(stored(probed).2.as_deref(), Some(&b"fits"[..]));
}

#[tokio::test]
async fn who_cannot_be_reached_says_nothing_and_the_log_has_no_key() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let asker = asker(&format!("http://{address}/{{key}}"), |_| {});
    let reason = unclear(asker.ask(&identity("secret-key")).await);
    assert!(!reason.contains("secret-key"), "{reason}");
}

#[tokio::test]
async fn what_a_url_cannot_name_is_not_asked_about() {
    let asker = asker("http://127.0.0.1:1/by-key/{key}", |_| {});
    assert!(unclear(asker.ask(&identity("..")).await).contains("a URL can't name this operation"));
}

#[test]
fn a_secure_probe_has_a_client_too() {
    let url: ProbeUrl = "https://api.example/{scope}/{key}".parse().expect("a template");
    assert!(client(&url, std::time::Duration::from_secs(1)).is_ok());
}
