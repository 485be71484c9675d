//! The scope source `client-cert` (S1).

use oncekey_testkit::tls::rcgen::{CertificateParams, DnType, SanType};
use oncekey_testkit::{Answer, Call, CountingUpstream, Http2Client};

use super::*;

impl Ground {
    /// A listener that asks for certificates, and routes that take their scope from `sources`.
    fn asking(&self, sources: &str) -> String {
        let ca = self.line("ca", "ca.pem");
        format!("{}[client_cert]\n{ca}[defaults]\nscope = {sources}\n", self.tls())
    }

    fn client(&self, change: impl FnOnce(&mut CertificateParams)) -> Trust {
        let issued = self.authority.issue_with(&[], change);
        self.authority.trusted_by(&issued, "localhost")
    }
}

fn order(key: &str) -> Call {
    Call::post("/orders").key(key).json(r#"{"amount":1200}"#)
}

async fn send(gateway: &Gateway, trust: &Trust, call: &Call) -> Answer {
    client(gateway, trust).call(call).await.expect("an answer")
}

fn uri(text: &str) -> impl FnOnce(&mut CertificateParams) {
    let name = SanType::URI(text.try_into().expect("ASCII"));
    |params| params.subject_alt_names = vec![name]
}

fn common_name(text: &str) -> impl FnOnce(&mut CertificateParams) {
    move |params| params.distinguished_name.push(DnType::CommonName, text)
}

#[tokio::test]
async fn one_key_of_two_clients_is_two_operations_and_a_renewed_certificate_is_the_same_client() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let gateway = Gateway::start(&upstream.url(), &ground.asking(r#"["client-cert"]"#)).await;
    let (first, second) = (ground.client(uri("spiffe://shop/a")), ground.client(common_name("b, O=shop")));
    for client in [&first, &second] {
        let answer = send(&gateway, client, &order("k")).await;
        assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, false));
    }
    let renewed = ground.client(uri("spiffe://shop/a"));
    assert!(send(&gateway, &renewed, &order("k")).await.is_replay());
    let streams = Http2Client::over_tls(gateway.address, &renewed).await.expect("HTTP/2 is agreed on");
    assert!(streams.call(&order("k")).await.expect("an answer").is_replay());
    assert_eq!(upstream.total(), 2);

    let records = gateway.ask("/api/records").await.json();
    let mut scopes: Vec<_> = records["records"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|record| (record["scope_source"].as_str().unwrap_or(""), record["scope"].as_str().unwrap_or("")))
        .collect();
    scopes.sort_unstable();
    assert_eq!(scopes, [("client-cert", "dn:CN=b\\, O=shop"), ("client-cert", "uri:spiffe://shop/a")]);
    gateway.end().await;
}

#[tokio::test]
async fn without_a_certificate_the_next_source_counts_and_else_the_scope_is_missing() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let gateway = Gateway::start(&upstream.url(), &ground.asking(r#"["client-cert", "header:X-Account-Id"]"#)).await;
    let bare = ground.trust();
    // No field of a request can claim a certificate.
    let claims = order("k").header("client-cert", "uri:spiffe://shop/a").header("x-forwarded-client-cert", "URI=a");
    let missing = send(&gateway, &bare, &claims).await;
    assert_eq!((missing.status.as_u16(), missing.problem()), (400, Some("scope-missing")));
    assert!(missing.json()["detail"].as_str().is_some_and(|detail| detail.contains("client-cert")));
    let nameless = ground.client(|_| {});
    assert_eq!(send(&gateway, &nameless, &order("k")).await.problem(), Some("scope-missing"));
    assert_eq!(upstream.total(), 0);
    // The header's value never meets a certificate's.
    let certified = ground.client(uri("spiffe://shop/a"));
    assert_eq!(send(&gateway, &certified, &order("k").scope("acc-1")).await.status, 201);
    let by_header = send(&gateway, &bare, &order("k").scope("uri:spiffe://shop/a")).await;
    assert_eq!((by_header.status.as_u16(), by_header.is_replay()), (201, false));
    gateway.end().await;
}

#[tokio::test]
async fn a_name_that_is_too_long_is_no_scope() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let gateway = Gateway::start(&upstream.url(), &ground.asking(r#"["client-cert"]"#)).await;
    let fits = ground.client(uri(&"a".repeat(251)));
    assert_eq!(send(&gateway, &fits, &order("k")).await.status, 201);
    let long = ground.client(uri(&"a".repeat(252)));
    let answer = send(&gateway, &long, &order("k")).await;
    assert_eq!((answer.status.as_u16(), answer.problem()), (400, Some("scope-invalid")));
    gateway.end().await;
}

#[tokio::test]
async fn a_certificate_that_does_not_verify_ends_the_connection() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let gateway = Gateway::start(&upstream.url(), &ground.asking(r#"["client-cert", "header:X-Account-Id"]"#)).await;
    let stranger = Authority::new("the shop's root").issue_with(&[], uri("spiffe://shop/a"));
    let expired = ground.authority.issue_expired(&["a"]);
    for issued in [stranger, expired] {
        let trust = ground.authority.trusted_by(&issued, "localhost");
        client(&gateway, &trust).call(&order("k").scope("acc-1")).await.expect_err("no answer");
    }
    assert_eq!(upstream.total(), 0);
    gateway.end().await;
}
