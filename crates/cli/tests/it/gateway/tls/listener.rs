//! The listener with `[tls]`: the same answers, through TLS, with the same care for the ends of connections.

use std::io::ErrorKind;
use std::process::Command;

use oncekey_testkit::{CountingUpstream, Http2Client, RawClient};

use super::super::stand::{order, raw_order};
use super::*;

#[tokio::test]
async fn curl_of_either_version_gets_an_execution_and_its_replay() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let gateway = Gateway::start(&upstream.url(), &ground.tls()).await;
    for version in ["1.2", "1.3"] {
        let mut bodies = Vec::new();
        for _ in 0..2 {
            let url = format!("https://localhost:{}/orders", gateway.address.port());
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--fail-with-body", "--ipv4", "--dump-header", "-", &url]);
            curl.arg("--cacert").arg(ground.path("ca.pem"));
            curl.args([&format!("--tlsv{version}"), "--tls-max", version, "--data", "{}"]);
            curl.args(["--write-out", "over %{http_version}"]);
            curl.args(["--header", "X-Account-Id: acc-1", "--header", &format!("Idempotency-Key: curl-{version}")]);
            let ended = tokio::task::spawn_blocking(move || curl.output());
            let output = ended.await.expect("no panic").expect("curl runs");
            assert!(output.status.success(), "{version}: {}", String::from_utf8_lossy(&output.stderr));
            bodies.push(String::from_utf8(output.stdout).expect("UTF-8").to_ascii_lowercase());
        }
        assert!(bodies.iter().all(|body| body.ends_with("over 2")), "{bodies:?}");
        assert!(!bodies[0].contains("idempotent-replayed") && bodies[1].contains("idempotent-replayed: true"));
        assert_eq!(upstream.executions("acc-1", &format!("curl-{version}")), 1);
    }
    let said = upstream.arrivals()[0].headers.get("x-forwarded-proto").cloned();
    assert_eq!(said.as_ref().map(http::HeaderValue::as_bytes), Some(&b"https"[..]));
    gateway.end().await;
}

/// Sends a request and prints the status, with nothing but the standard library.
const PYTHON: &str = "
import ssl, sys, urllib.request
url, authority = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
context.verify_flags |= ssl.VERIFY_X509_STRICT
headers = {'X-Account-Id': 'acc-1', 'Idempotency-Key': 'python'}
with urllib.request.urlopen(urllib.request.Request(url, b'{}', headers), context=context) as answer:
    print(answer.status, answer.headers.get('Idempotent-Replayed'), answer.read() != b'')
";

#[tokio::test]
async fn python_verifies_it_strictly() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let gateway = Gateway::start(&upstream.url(), &ground.tls()).await;
    for expected in ["201 None True\n", "201 true True\n"] {
        let mut python = Command::new("python3");
        python.args(["-c", PYTHON, &format!("https://localhost:{}/orders", gateway.address.port())]);
        python.arg(ground.path("ca.pem"));
        let ended = tokio::task::spawn_blocking(move || python.output());
        let output = ended.await.expect("no panic").expect("python3 runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(upstream.executions("acc-1", "python"), 1);
    gateway.end().await;
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_authority_sends_nothing() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let gateway = Gateway::start(&upstream.url(), &ground.tls()).await;
    let stranger = Authority::new("another root").trusted_for("localhost");
    client(&gateway, &stranger).call(&order("k")).await.expect_err("an unknown authority");
    client(&gateway, &ground.authority.trusted_for("other.example")).call(&order("k")).await.expect_err("a wrong name");
    assert_eq!(upstream.total(), 0);
    gateway.end().await;
}

#[tokio::test]
async fn a_plain_request_is_not_served() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let gateway = Gateway::start(&upstream.url(), &ground.tls()).await;
    let mut plain = gateway.raw().await;
    plain.write(raw_order("k", &[])).await.expect("sent");
    plain.read_answer().await.expect_err("no HTTP comes back");
    assert_eq!(upstream.total(), 0);
    gateway.end().await;
}

#[tokio::test]
async fn a_client_that_ends_its_side_gets_the_answer_and_an_orderly_end() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let gateway = Gateway::start(&upstream.url(), &ground.tls()).await;
    let mut client = raw(&gateway, &ground.trust()).await;
    client.write(raw_order("k", &["X-Test-Gate: g"])).await.expect("sent");
    client.finish().await.expect("ended");
    upstream.arrived(1).await;
    upstream.open("g");
    assert_eq!(client.read_answer().await.expect("an answer").status, 201);
    // Without a close_notify this would be an error.
    assert_eq!(client.read_to_end().await.expect("an orderly end"), b"");
    gateway.end().await;
}

#[tokio::test]
async fn requests_follow_each_other_and_a_refused_body_ends_the_connection_in_order() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let settings = format!("{}[defaults]\nmax_request = \"8KiB\"\n", ground.tls());
    let gateway = Gateway::start(&upstream.url(), &settings).await;
    let mut client = raw(&gateway, &ground.trust()).await;
    client.write([raw_order("a", &[]), raw_order("b", &[])].concat()).await.expect("sent");
    for _ in 0..2 {
        assert_eq!(client.read_answer().await.expect("an answer").status, 201);
    }
    let long = 1024 * 1024;
    let head = format!(
        "POST /orders HTTP/1.1\r\nHost: a\r\nX-Account-Id: acc-1\r\nIdempotency-Key: c\r\nContent-Length: {long}\r\n\r\n"
    );
    client.write(head).await.expect("sent");
    client.write(vec![b'x'; long]).await.expect("taken or lingered over");
    assert_eq!(client.read_answer().await.expect("an answer").status, 413);
    client.read_to_end().await.expect("an orderly end");
    gateway.end().await;
}

#[tokio::test]
async fn http_2_is_spoken_where_it_is_offered_many_requests_at_a_time() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let gateway = Gateway::start(&upstream.url(), &ground.tls()).await;
    let client = Http2Client::over_tls(gateway.address, &ground.trust()).await.expect("HTTP/2 is agreed on");
    let gated = order("a").header("x-test-gate", "g");
    let both = async {
        tokio::join!(client.call(&gated), async {
            upstream.arrived(1).await;
            let other = client.call(&order("b")).await;
            upstream.open("g");
            other
        })
    };
    let (first, second) = both.await;
    for answer in [first, second] {
        assert_eq!(answer.expect("an answer").status, 201);
    }
    assert!(client.call(&order("a")).await.expect("an answer").is_replay());
    assert_eq!(upstream.total(), 2);
    assert_eq!(upstream.arrivals()[0].headers["x-forwarded-proto"], "https");
    // The drain says goodbye and ends TLS in order; the client's own goodbye may find nobody there any more.
    gateway.end().await;
    let ended = client.over().await;
    let is_late = |error: &h2::Error| error.get_io().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe);
    assert!(ended.as_ref().is_none_or(|error| error.is_go_away() || is_late(error)), "{ended:?}");
}

/// An answer to HTTP/1.0 whose length isn't known ends with its connection.
#[tokio::test]
async fn an_answer_that_ends_with_the_connection_ends_in_order_when_whole_and_by_a_reset_when_cut() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let gateway = Gateway::start(&upstream.url(), &ground.tls()).await;
    for (cut, whole) in [("", true), ("X-Test-Cut-After: 20000\r\nX-Test-Cut: fin\r\n", false)] {
        let mut client = raw(&gateway, &ground.trust()).await;
        let request = format!(
            "GET /long HTTP/1.0\r\nHost: a\r\nX-Test-Body-Bytes: 100000\r\nX-Test-Framing: chunked\r\n{cut}\r\n"
        );
        client.write(request).await.expect("sent");
        let read = client.read_to_end().await;
        if whole {
            assert!(read.expect("an orderly end").len() > 100_000);
        } else {
            assert_eq!(read.expect_err("a cut").kind(), ErrorKind::ConnectionReset);
        }
    }
    gateway.end().await;
}

#[tokio::test]
async fn a_handshake_under_way_does_not_hold_up_the_drain() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let gateway = Gateway::start(&upstream.url(), &ground.tls()).await;
    let mut silent = RawClient::connect(gateway.address).await.expect("connected");
    // The one behind it is served, so the silent one is accepted.
    assert_eq!(client(&gateway, &ground.trust()).call(&order("k")).await.expect("an answer").status, 201);
    gateway.end().await;
    assert_eq!(silent.read_to_end().await.expect("an end"), b"");
}

#[tokio::test]
async fn http_1_1_is_spoken_where_http_2_is_not_offered() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let gateway = Gateway::start(&upstream.url(), &ground.tls()).await;
    for (offered, served) in [(&[&b"http/1.1"[..]][..], true), (&[], true), (&[b"acme-tls/1"], false)] {
        let call = client(&gateway, &ground.trust().offering(offered)).call(&order("k")).await;
        assert_eq!(call.is_ok_and(|answer| answer.status == 201), served, "{offered:?}");
    }
    gateway.end().await;
}
