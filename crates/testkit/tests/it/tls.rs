//! TLS in front of a plain server: it passes requests, ends connections in order unless told otherwise, and lets in whom the
//! authority knows.

use oncekey_testkit::tls::{Authority, TlsFront};
use oncekey_testkit::{Call, Client, CountingUpstream, RawClient};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\nX-Test-Framing: close\r\n\r\n";

#[tokio::test]
async fn a_request_passes_and_its_connection_ends_in_order_until_it_is_told_not_to() {
    let (authority, upstream) = (Authority::new("root"), CountingUpstream::start().await);
    let config = Authority::server(&authority.issue(&["localhost"]), None);
    let front = TlsFront::start(upstream.address(), config).await;
    let trust = authority.trusted_for("localhost");
    for truncated in [false, true] {
        if truncated {
            front.truncate();
        }
        let mut client = RawClient::connect_tls(front.address(), &trust).await.expect("TLS is established");
        client.write(REQUEST).await.expect("sent");
        let ended = client.read_to_end().await;
        assert_eq!(ended.is_err(), truncated, "{ended:?}");
    }
    assert_eq!((front.established(), front.resumed(), upstream.total()), (2, 1, 2));
}

#[tokio::test]
async fn only_who_is_known_is_let_in() {
    let (authority, upstream) = (Authority::new("root"), CountingUpstream::start().await);
    let clients = Authority::new("clients");
    let config = Authority::server(&authority.issue(&["localhost"]), Some(&clients));
    let front = TlsFront::start(upstream.address(), config).await;
    let known = clients.issue(&["a"]);
    for (trust, let_in) in [
        (authority.trusted_by(&known, "localhost"), true),
        (authority.trusted_by(&clients.issue_expired(&["a"]), "localhost"), false),
        (authority.trusted_by(&Authority::new("clients").issue(&["a"]), "localhost"), false),
        (authority.trusted_for("localhost"), false),
        (authority.trusted_by(&known, "other.example"), false),
        (Authority::new("root").trusted_by(&known, "localhost"), false),
    ] {
        assert_eq!(Client::over_tls(front.address(), trust).call(&Call::get("/")).await.is_ok(), let_in);
    }
    assert_eq!(upstream.total(), 1);
}
