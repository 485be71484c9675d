//! How requests may be framed, and which are refused before anything looks at them (H1, H2).

use oncekey_testkit::{CountingUpstream, RawAnswer};

use super::stand::{Gateway, raw_order};

const HEAD: &str = "POST /orders HTTP/1.1\r\nHost: a\r\nX-Account-Id: acc-1\r\nIdempotency-Key: k\r\n";

/// Sends bytes and reads all that comes until the gateway ends the connection.
async fn until_closed(gateway: &Gateway, bytes: impl AsRef<[u8]>) -> String {
    let mut client = gateway.raw().await;
    client.write(bytes).await.expect("sent");
    String::from_utf8_lossy(&client.read_to_end().await.expect("an end in order")).into_owned()
}

#[tokio::test]
async fn requests_framed_wrongly_are_refused_and_nothing_behind_them_is_run() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let host = "POST /orders HTTP/1.1\r\nX-Account-Id: acc-1\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n";
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    for (what, request) in [
        ("differing lengths", format!("{HEAD}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}")),
        ("lengths in one line", format!("{HEAD}Content-Length: 2, 3\r\n\r\n{{}}")),
        ("a length that is none", format!("{HEAD}Content-Length: 0x2\r\n\r\n{{}}")),
        ("a signed length", format!("{HEAD}Content-Length: +2\r\n\r\n{{}}")),
        ("another coding", format!("{HEAD}Transfer-Encoding: gzip\r\n\r\n")),
        ("another coding before chunked", format!("{HEAD}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")),
        ("chunked twice", format!("{HEAD}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")),
        ("a coding spelled oddly", format!("{HEAD}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n")),
        ("a bad chunk", format!("{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n")),
        ("a chunk without its end", format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}X\r\n0\r\n\r\n")),
        ("coding on 1.0", format!("{}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", HEAD.replace("1.1", "1.0"))),
        ("two hosts", format!("{host}Host: a\r\nHost: b\r\n\r\n")),
        ("the same host twice", format!("{host}Host: a\r\nHost: a\r\n\r\n")),
        ("no host", format!("{host}\r\n")),
        ("a space before the colon", format!("{HEAD}Content-Length : 0\r\n\r\n")),
        ("a folded line", format!("{HEAD}X-Note: a\r\n b\r\nContent-Length: 0\r\n\r\n")),
    ] {
        let said = until_closed(&gateway, format!("{request}{smuggled}")).await;
        assert!(said.starts_with("HTTP/1.1 400") || said.starts_with("HTTP/1.0 400"), "{what}: {said}");
        assert_eq!(said.matches("HTTP/1.").count(), 1, "{what}: {said}");
    }
    assert_eq!(upstream.total(), 0, "{:?}", upstream.arrivals());
    gateway.end().await;
}

#[tokio::test]
async fn with_both_framings_the_request_is_answered_by_its_chunks_and_the_connection_closes() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    for (key, order) in [
        ("a", "Content-Length: 4\r\nTransfer-Encoding: chunked"),
        ("b", "Transfer-Encoding: chunked\r\nContent-Length: 4"),
    ] {
        let head = HEAD.replace("Key: k", &format!("Key: {key}"));
        let request = format!(
            "{head}X-Test-Body: echo\r\n{order}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
        );
        let said = until_closed(&gateway, request).await;
        assert!(said.starts_with("HTTP/1.1 201") && said.ends_with("\r\n\r\n{}"), "{said}");
        assert_eq!(said.matches("HTTP/1.").count(), 1, "{said}");
    }
    assert_eq!(upstream.total(), 2);
    assert!(upstream.arrivals().iter().all(|arrival| arrival.headers["content-length"] == "2"), "framed anew");
    gateway.end().await;
}

#[tokio::test]
async fn a_chunked_request_is_the_same_request_as_one_with_a_length() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let chunked = format!(
        "{HEAD}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nX-Test-Body: echo\r\n\r\n\
         5;x=y\r\n{{\"amo\r\na\r\nunt\":1200}}\r\n0\r\nX-Trailer: t\r\n\r\n"
    );
    let first = gateway.exchange(chunked).await;
    assert_eq!((first.status, &*first.body), (201, &b"{\"amount\":1200}"[..]));
    let replay = gateway.exchange(raw_order("k", &[])).await;
    assert_eq!((replay.values("idempotent-replayed"), &replay.body), (vec!["true"], &first.body));
    let arrivals = upstream.arrivals();
    assert_eq!(arrivals.len(), 1);
    assert_eq!(arrivals[0].headers["content-length"], "15");
    assert!(!arrivals[0].headers.contains_key("transfer-encoding"));
    gateway.end().await;
}

#[tokio::test]
async fn connection_cannot_name_the_key_or_the_scope_away() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let lines = [
        "Connection: idempotency-key, X-Account-Id, X-Hop, keep-alive",
        "X-Hop: gone",
        "Keep-Alive: timeout=5",
        "TE: gzip",
    ];
    let request = raw_order("k", &lines);
    let (first, second) = (gateway.exchange(&request).await, gateway.exchange(&request).await);
    assert_eq!((first.status, second.values("idempotent-replayed")), (201, vec!["true"]));
    assert_eq!(upstream.executions("acc-1", "k"), 1);
    let headers = &upstream.arrivals()[0].headers;
    for name in ["x-hop", "keep-alive"] {
        assert!(!headers.contains_key(name), "{name}");
    }
    assert_eq!(headers["te"], "trailers", "oncekey's own, on its own hop");
    for (name, value) in [
        ("te", "trailers"), // the gateway's own word: what is recorded doesn't depend on who asked first (R6)
        ("host", "api.example"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "api.example"),
        ("via", "1.1 oncekey"),
        ("accept-encoding", "identity"),
        ("oncekey-attempt", "1"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    assert_eq!(headers["oncekey-operation-id"], first.values("oncekey-operation-id")[0]);
    gateway.end().await;
}

#[tokio::test]
async fn the_clients_own_word_on_attempts_does_not_reach_the_upstream() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    gateway
        .exchange(raw_order("k", &["Oncekey-Attempt: 9", "Oncekey-Operation-Id: forged", "Oncekey-Attempt: 8"]))
        .await;
    let headers = &upstream.arrivals()[0].headers;
    assert!(headers.get_all("oncekey-attempt").iter().eq(["1"]));
    assert_eq!(headers.get_all("oncekey-operation-id").iter().count(), 1);
    assert_ne!(headers["oncekey-operation-id"], "forged");
    gateway.end().await;
}

fn problem(answer: &RawAnswer) -> &str {
    answer.values("oncekey-problem").first().copied().unwrap_or_default()
}

#[tokio::test]
async fn keys_and_scopes_that_are_none_are_refused_before_anything_runs() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "[defaults]\nkey = \"required\"\n").await;
    let request = |lines: &str| format!("POST /orders HTTP/1.1\r\nHost: a\r\n{lines}Content-Length: 2\r\n\r\n{{}}");
    for (lines, code) in [
        ("X-Account-Id: acc-1\r\n", "key-missing"),
        ("X-Account-Id: acc-1\r\nIdempotency-Key:\r\n", "key-invalid"),
        ("X-Account-Id: acc-1\r\nIdempotency-Key: a\r\nIdempotency-Key: a\r\n", "key-invalid"),
        ("X-Account-Id: acc-1\r\nIdempotency-Key: \"a\r\n", "key-invalid"),
        ("X-Account-Id: acc-1\r\nIdempotency-Key: a, b\r\n", "key-invalid"),
        ("X-Account-Id: acc-1\r\nIdempotency-Key: \u{e9}\r\n", "key-invalid"),
        ("Idempotency-Key: a\r\n", "scope-missing"),
        ("X-Account-Id:  \r\nIdempotency-Key: a\r\n", "scope-missing"),
        ("X-Account-Id: a\r\nX-Account-Id: a\r\nIdempotency-Key: a\r\n", "scope-invalid"),
    ] {
        let answer = gateway.exchange(request(lines)).await;
        assert_eq!((answer.status, problem(&answer)), (400, code), "{lines}");
        assert_eq!(answer.values("content-type"), ["application/problem+json"]);
    }
    assert_eq!(upstream.total(), 0);
    gateway.end().await;
}
