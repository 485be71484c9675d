//! https upstreams: what is not established was not executed (E6), what is cut is unknown (E7).

use oncekey_testkit::tls::TlsFront;
use oncekey_testkit::{Answer, CountingUpstream, Process, free_address};

use super::super::stand::{oncekey, order};
use super::*;

/// An upstream behind TLS.
struct Secured {
    ground: Ground,
    upstream: CountingUpstream,
}

impl Secured {
    async fn start() -> Self {
        Self { ground: Ground::new(), upstream: CountingUpstream::start().await }
    }

    /// TLS in front of it, with this certificate.
    async fn front(&self, issued: &Issued) -> TlsFront {
        TlsFront::start(self.upstream.address(), Authority::server(issued, None)).await
    }

    fn issue(&self) -> Issued {
        self.ground.authority.issue(&["localhost", "127.0.0.1"])
    }
}

async fn states(gateway: &Gateway) -> Vec<String> {
    let records = gateway.ask("/api/records").await.json();
    let records = records["records"].as_array().expect("a list").clone();
    records.iter().map(|record| record["state"].as_str().expect("a state").to_owned()).collect()
}

fn is_unreachable(answer: &Answer) -> bool {
    (answer.status.as_u16(), answer.problem()) == (502, Some("upstream-unreachable"))
}

#[tokio::test]
async fn an_upstream_of_the_own_authority_is_called_by_name_and_by_address() {
    let secured = Secured::start().await;
    let front = secured.front(&secured.issue()).await;
    for url in [front.url(), front.local_url()] {
        let gateway = Gateway::start(&url, &secured.ground.upstream_tls()).await;
        let first = gateway.send(&order("k")).await;
        assert_eq!((first.status.as_u16(), first.is_replay()), (201, false), "{url}");
        assert!(gateway.send(&order("k")).await.is_replay());
        gateway.end().await;
    }
    assert_eq!(secured.upstream.total(), 2, "two stores");
}

#[tokio::test]
async fn the_systems_authorities_count_where_none_is_named() {
    let secured = Secured::start().await;
    let front = secured.front(&secured.issue()).await;
    let (address, admin) = (free_address().expect("a port"), free_address().expect("a port"));
    let mut command = oncekey();
    command.args(["serve", "--store", "memory:", "--upstream", &front.local_url()]);
    command.args(["--listen", &address.to_string(), "--admin", &admin.to_string()]);
    command.env("SSL_CERT_FILE", secured.ground.path("ca.pem"));
    let mut process = Process::start(&mut command).expect("oncekey starts");
    process.ready(admin, "/readyz").await.expect("oncekey becomes ready");
    assert_eq!(Client::new(address).call(&order("k")).await.expect("an answer").status, 201);
}

#[tokio::test]
async fn a_certificate_that_is_not_accepted_is_proof_that_nothing_was_executed() {
    let secured = Secured::start().await;
    let stranger = Authority::new("another root").issue(&["localhost"]);
    let elsewhere = secured.ground.authority.issue(&["other.example"]);
    let expired = secured.ground.authority.issue_expired(&["localhost"]);
    for (issued, why) in
        [(stranger, "of an authority that isn't known"), (elsewhere, "is for another name"), (expired, "has expired")]
    {
        let front = secured.front(&issued).await;
        let gateway = Gateway::start(&front.local_url(), &secured.ground.upstream_tls()).await;
        let answer = gateway.send(&order("k")).await;
        assert!(is_unreachable(&answer), "{why}: {answer:?}");
        assert!(answer.header("retry-after").is_some());
        assert_eq!(states(&gateway).await, ["failed"], "{why}");
        let log = gateway.process.stderr().all().join("\n");
        assert!(log.contains("TLS with the upstream wasn't established") && log.contains(why), "{log}");
        gateway.end().await;
    }
    assert_eq!(secured.upstream.total(), 0);
}

#[tokio::test]
async fn the_name_to_expect_can_be_another_than_the_host() {
    let secured = Secured::start().await;
    let front = secured.front(&secured.ground.authority.issue(&["api.internal"])).await;
    let settings = format!("{}server_name = \"api.internal\"\n", secured.ground.upstream_tls());
    let gateway = Gateway::start(&front.url(), &settings).await;
    assert_eq!(gateway.send(&order("k")).await.status, 201);
    gateway.end().await;
}

#[tokio::test]
async fn an_upstream_that_speaks_no_tls_was_sent_nothing() {
    let secured = Secured::start().await;
    let url = format!("https://{}", secured.upstream.address());
    let gateway = Gateway::start(&url, &secured.ground.upstream_tls()).await;
    assert!(is_unreachable(&gateway.send(&order("k")).await));
    assert_eq!(secured.upstream.total(), 0);
    gateway.end().await;
}

#[tokio::test]
async fn a_handshake_that_hangs_is_ended_by_the_connect_timeout() {
    let ground = Ground::new();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://{}", silent.local_addr().expect("an address"));
    let settings = format!("{}[defaults]\nconnect_timeout = \"200ms\"\n", ground.upstream_tls());
    let gateway = Gateway::start(&url, &settings).await;
    assert!(is_unreachable(&gateway.send(&order("k")).await));
    assert_eq!(states(&gateway).await, ["failed"]);
    gateway.end().await;
}

#[tokio::test]
async fn an_upstream_that_asks_for_a_certificate_gets_one() {
    let secured = Secured::start().await;
    let clients = Authority::new("the gateways' root");
    secured.ground.put("gateway", &clients.issue(&["gateway"]));
    let config = Authority::server(&secured.issue(), Some(&clients));
    let front = TlsFront::start(secured.upstream.address(), config).await;
    let shown = [secured.ground.line("cert", "gateway.pem"), secured.ground.line("key", "gateway.key")].concat();
    let gateway = Gateway::start(&front.local_url(), &format!("{}{shown}", secured.ground.upstream_tls())).await;
    assert_eq!(gateway.send(&order("k")).await.status, 201);
    gateway.end().await;
    assert_eq!(front.established(), 1);
}

/// In TLS 1.3 the refusal comes when the gateway's part of the handshake is over. Whether the request had left by then
/// decides what is known; that it isn't executed, and isn't said to be, holds either way.
#[tokio::test]
async fn a_refused_client_certificate_executes_nothing_and_claims_nothing() {
    let secured = Secured::start().await;
    let config = Authority::server(&secured.issue(), Some(&Authority::new("the gateways' root")));
    let front = TlsFront::start(secured.upstream.address(), config).await;
    let gateway = Gateway::start(&front.local_url(), &secured.ground.upstream_tls()).await;
    for number in 0..10 {
        let answer = gateway.send(&order(&format!("k-{number}"))).await;
        assert!(matches!(answer.problem(), Some("upstream-unreachable" | "outcome-unknown")), "{answer:?}");
    }
    assert!(states(&gateway).await.iter().all(|state| state == "failed" || state == "unknown"));
    assert_eq!((front.established(), secured.upstream.total()), (0, 0));
    gateway.end().await;
}

/// A body that ends with its connection is whole only if TLS says that it ends; a FIN alone may be anyone's (E7).
#[tokio::test]
async fn a_body_that_ends_without_a_close_notify_is_cut() {
    let secured = Secured::start().await;
    let front = secured.front(&secured.issue()).await;
    let gateway = Gateway::start(&front.local_url(), &secured.ground.upstream_tls()).await;
    let delimited = |key: &str| order(key).header("x-test-framing", "close").header("x-test-body-bytes", "1000");
    let whole = gateway.send(&delimited("whole")).await;
    assert_eq!((whole.status.as_u16(), whole.body.len()), (201, 1000));
    assert!(gateway.send(&delimited("whole")).await.is_replay());
    front.truncate();
    let cut = gateway.send(&delimited("cut")).await;
    assert_eq!((cut.status.as_u16(), cut.problem()), (504, Some("outcome-unknown")));
    let mut states = states(&gateway).await;
    states.sort_unstable();
    assert_eq!(states, ["completed", "unknown"]);
    gateway.end().await;
}
