//! Each HTTP in front with each HTTP behind, with and without TLS on either side: what holds for one pair holds for all.

mod grpc;
mod live;
mod resets;

use oncekey_testkit::frames::{block, kind};
use oncekey_testkit::tls::TlsFront;
use oncekey_testkit::{Answer, Call, CountingUpstream, FrameClient, Http2Client};

use super::stand::{Gateway, order};
use super::tls::{Authority, Ground, client};

/// What an upstream speaks.
#[derive(Clone, Copy, Debug)]
struct Kind {
    http2: bool,
    /// What it offers by ALPN; `None`: no TLS.
    offers: Option<&'static [&'static [u8]]>,
    setting: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind { http2: false, offers: None, setting: "auto" },
    Kind { http2: true, offers: None, setting: "2" },
    Kind { http2: false, offers: Some(&[]), setting: "auto" },
    Kind { http2: true, offers: Some(&[b"h2", b"http/1.1"]), setting: "auto" },
    Kind { http2: true, offers: Some(&[b"h2"]), setting: "2" },
];

/// An upstream of some kind.
struct Behind {
    upstream: CountingUpstream,
    _front: Option<TlsFront>,
    settings: String,
}

impl Behind {
    async fn start(kind: Kind, ground: &Ground) -> Self {
        let upstream = if kind.http2 { CountingUpstream::start_http2().await } else { CountingUpstream::start().await };
        let mut front = None;
        if let Some(offers) = kind.offers {
            let mut config = Authority::server(&ground.authority.issue(&["localhost"]), None);
            config.alpn_protocols = offers.iter().map(|protocol| protocol.to_vec()).collect();
            front = Some(TlsFront::start(upstream.address(), config).await);
        }
        let url = front.as_ref().map_or_else(|| upstream.url(), TlsFront::local_url);
        let ca = if front.is_some() { ground.upstream_tls() } else { String::new() };
        let settings = format!("upstream = \"{url}\"\nupstream_http = \"{}\"\n{ca}", kind.setting);
        Self { upstream, _front: front, settings }
    }
}

/// A client by HTTP/1.1 and one by HTTP/2.
struct Clients {
    one: oncekey_testkit::Client,
    two: Http2Client,
}

impl Clients {
    async fn of(gateway: &Gateway, ground: Option<&Ground>) -> Self {
        match ground {
            None => {
                let two = Http2Client::connect(gateway.address).await.expect("connected");
                Self { one: gateway.client(), two }
            }
            Some(ground) => {
                let two = Http2Client::over_tls(gateway.address, &ground.trust()).await.expect("HTTP/2 is agreed on");
                Self { one: client(gateway, &ground.trust()), two }
            }
        }
    }

    async fn call(&self, http2: bool, call: &Call) -> Answer {
        if http2 { self.two.call(call).await } else { self.one.call(call).await }.expect("an answer")
    }
}

#[tokio::test]
async fn whatever_is_spoken_an_order_is_executed_once_and_its_answer_is_the_same() {
    let ground = Ground::new();
    for (kind, secured) in KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let behind = Behind::start(kind, &ground).await;
        let tls = if secured { ground.tls() } else { String::new() };
        let gateway = Gateway::start("", &format!("{}{tls}", behind.settings)).await;
        let clients = Clients::of(&gateway, secured.then_some(&ground)).await;
        for http2 in [false, true] {
            let what = format!("{kind:?}, secured: {secured}, first by HTTP/2: {http2}");
            let key = format!("k-{http2}");
            let call = order(&key).header("te", "trailers").header("x-test-framing", "chunked");
            let call = call.header("x-test-trailer", "X-Sum: 42").header("x-test-header", "Set-Cookie: s=1");
            let call = if http2 {
                call.header("cookie", "a=1").header("cookie", "b=2")
            } else {
                call.header("cookie", "a=1; b=2").header("connection", "te")
            };
            let first = clients.call(http2, &call).await;
            let replay = clients.call(!http2, &order(&key).header("te", "trailers")).await;
            assert_eq!((first.status.as_u16(), first.is_replay()), (201, false), "{what}: {first:?}");
            assert_eq!((replay.status.as_u16(), replay.is_replay()), (201, true), "{what}: {replay:?}");
            assert_eq!((first.header("set-cookie"), replay.header("set-cookie")), (Some("s=1"), None), "{what}");
            assert_eq!(first.body, replay.body, "{what}");
            assert_eq!(first.trailers["x-sum"], "42", "{what}");
            assert_eq!(replay.trailers["x-sum"], "42", "{what}");
            assert_eq!(behind.upstream.executions("acc-1", &key), 1, "{what}");
            let arrival = behind.upstream.arrivals().pop().expect("one");
            let authority = gateway.address.to_string();
            let host = arrival.headers.get("host").map_or(&*arrival.target, |host| host.to_str().expect("text"));
            assert!(host == authority || arrival.target.contains(&format!("://{authority}/")), "{what}: {arrival:?}");
            for (name, value) in [
                ("cookie", "a=1; b=2"),
                ("x-forwarded-proto", if secured { "https" } else { "http" }),
                ("via", if http2 { "2.0 oncekey" } else { "1.1 oncekey" }),
                ("content-length", "15"),
                ("te", "trailers"),
            ] {
                assert!(arrival.headers.get_all(name).iter().eq([value]), "{what}: {name}: {arrival:?}");
            }
            // Unguarded, both ways at once and with trailers.
            let put = Call::new(http::Method::PUT, "/f").body(vec![7; 300_000]).header("x-test-body", "echo");
            let put = put.header("x-test-framing", "chunked").header("te", "trailers");
            let put = if http2 { put } else { put.header("connection", "te") };
            let echoed = clients.call(http2, &put.header("x-test-trailer", "X-Sum: 1")).await;
            assert_eq!((echoed.status.as_u16(), echoed.body.len()), (200, 300_000), "{what}");
            if http2 {
                assert_eq!(echoed.trailers["x-sum"], "1", "{what}");
            }
            assert_eq!(clients.call(http2, &Call::new(http::Method::HEAD, "/f")).await.status, 200, "{what}");
        }
        gateway.end().await;
    }
}

/// Under `auto`, what asks for another protocol goes by HTTP/1.1 where the upstream speaks it, and nowhere else.
#[tokio::test]
async fn an_upgrade_through_tls_offers_no_http_2() {
    let ground = Ground::new();
    let upgrade = "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    let one = Behind::start(Kind { http2: false, offers: Some(&[b"http/1.1"]), setting: "auto" }, &ground).await;
    let gateway = Gateway::start("", &one.settings).await;
    assert_eq!(gateway.send(&order("k")).await.status, 201);
    let mut raw = gateway.raw().await;
    raw.write(upgrade).await.expect("sent");
    let head = raw.read_until("\r\n\r\n").await.expect("a head");
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    raw.write("ping").await.expect("sent");
    raw.read_until("ping").await.expect("an echo");
    drop(raw);
    gateway.end().await;

    let two = Behind::start(Kind { http2: true, offers: Some(&[b"h2"]), setting: "auto" }, &ground).await;
    let gateway = Gateway::start("", &two.settings).await;
    assert_eq!(gateway.send(&order("k")).await.status, 201);
    let refused = gateway.exchange(upgrade).await;
    assert_eq!((refused.status, refused.values("oncekey-problem")), (502, vec!["upstream-unreachable"]));
    assert_eq!(gateway.send(&order("k2")).await.status, 201);
    assert_eq!(two.upstream.total(), 2);
    gateway.end().await;
}

/// E6: nothing was sent.
#[tokio::test]
async fn an_upstream_that_does_not_agree_on_http_2_executes_nothing() {
    const OFFERS: [&[&[u8]]; 2] = [&[], &[b"http/1.1"]];
    let ground = Ground::new();
    for offers in OFFERS {
        let behind = Behind::start(Kind { http2: false, offers: Some(offers), setting: "2" }, &ground).await;
        let gateway = Gateway::start("", &behind.settings).await;
        let answer = gateway.send(&order("k")).await;
        assert_eq!((answer.status.as_u16(), answer.problem()), (502, Some("upstream-unreachable")));
        assert_eq!(behind.upstream.total(), 0);
        let record = &gateway.ask("/api/records").await.json()["records"][0];
        assert_eq!(record["state"], "failed");
        gateway.end().await;
    }
}

/// An answer that the upstream breaks off is broken off for its client, too, whatever the upstream calls it: some clients take
/// a body that ends with NO_ERROR or CANCEL for whole, and REFUSED_STREAM would say that nothing was executed.
#[tokio::test]
async fn an_answer_that_breaks_off_never_looks_whole_or_refused() {
    const INTERNAL_ERROR: u32 = 2;
    let upstream = CountingUpstream::start_http2().await;
    let gateway = Gateway::start(&upstream.url(), "upstream_http = \"2\"\n[defaults]\nstream = true\n").await;
    let breaks = [
        ("x-test-reset", "NO_ERROR"),
        ("x-test-reset", "CANCEL"),
        ("x-test-reset", "REFUSED_STREAM"),
        ("x-test-go-away", "yes"),
        ("x-test-cut", "rst"),
    ];
    for (method, (name, value)) in breaks.into_iter().flat_map(|breaks| [("GET", breaks), ("POST", breaks)]) {
        let gate = format!("{method}-{name}-{value}");
        let head = block(&[
            (":method", method),
            (":scheme", "http"),
            (":authority", "a"),
            (":path", "/orders"),
            ("x-account-id", "acc-1"),
            ("idempotency-key", &gate),
            ("x-test-framing", "chunked"),
            ("x-test-body-bytes", "40000"),
            ("x-test-cut-after", "20000"),
            ("x-test-body-gate", &gate),
            (name, value),
        ]);
        let mut client = FrameClient::connect(gateway.address).await.expect("connected");
        client.head(1, head, true).await.expect("sent");
        while client.read().await.expect("frames").expect("a part of the answer").kind != kind::DATA {}
        upstream.open(&gate);
        assert_eq!(client.reset_code(1).await.expect("frames"), Some(INTERNAL_ERROR), "{gate}");
    }
    gateway.end().await;
}
