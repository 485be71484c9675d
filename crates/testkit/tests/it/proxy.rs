//! The fault proxy between a client and the counting upstream.

use std::io::ErrorKind;
use std::time::Duration;

use oncekey_testkit::{Call, Client, CountingUpstream, Cut, Direction, FaultProxy, RawClient, free_address};

/// How long a test looks whether something comes that mustn't.
const A_WHILE: Duration = Duration::from_millis(100);
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const GATED: &str = "GET / HTTP/1.1\r\nHost: a\r\nX-Test-Gate: g\r\n\r\n";

async fn pair() -> (CountingUpstream, FaultProxy) {
    let upstream = CountingUpstream::start().await;
    let proxy = FaultProxy::start(upstream.address()).await;
    (upstream, proxy)
}

#[tokio::test]
async fn it_passes_on_and_counts() {
    let (upstream, proxy) = pair().await;
    let mut raw = RawClient::connect(proxy.address()).await.unwrap();
    raw.write(GET).await.unwrap();
    assert_eq!(raw.read_answer().await.unwrap().status, 200);
    assert_eq!(proxy.bytes(Direction::Up), GET.len() as u64);
    proxy.passed(Direction::Down, 50).await;
    assert_eq!((proxy.connections(), upstream.total()), (1, 1));
}

#[tokio::test]
async fn large_bodies_pass_both_ways() {
    let (_upstream, proxy) = pair().await;
    let body: Vec<u8> = (0..5_000_000u32).map(|at| at.to_le_bytes()[1]).collect();
    let call = Call::post("/").header("x-test-body", "echo").body(body.clone());
    assert_eq!(Client::new(proxy.address()).call(&call).await.unwrap().body, body);
}

#[tokio::test]
async fn a_fin_passes_as_a_fin_in_both_directions() {
    let (_upstream, proxy) = pair().await;
    let mut raw = RawClient::connect(proxy.address()).await.unwrap();
    raw.write(GET).await.unwrap();
    raw.read_answer().await.unwrap();
    raw.finish().await.unwrap();
    assert!(raw.read_to_end().await.unwrap().is_empty(), "the upstream ended its side in order");
}

#[tokio::test]
async fn a_reset_passes_as_a_reset() {
    let (_upstream, proxy) = pair().await;
    let mut raw = RawClient::connect(proxy.address()).await.unwrap();
    raw.write("GET / HTTP/1.1\r\nHost: a\r\nX-Test-Cut: rst\r\n\r\n").await.unwrap();
    assert_eq!(raw.read_answer().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_cut_ends_present_connections_and_not_later_ones() {
    let (upstream, proxy) = pair().await;
    for (number, cut, kind) in [(1, Cut::Fin, ErrorKind::UnexpectedEof), (2, Cut::Rst, ErrorKind::ConnectionReset)] {
        let mut raw = RawClient::connect(proxy.address()).await.unwrap();
        raw.write(GATED).await.unwrap();
        upstream.arrived(number).await;
        proxy.cut(cut);
        assert_eq!(raw.read_answer().await.unwrap_err().kind(), kind, "{cut:?}");
    }
    let answer = Client::new(proxy.address()).call(&Call::get("/")).await.unwrap();
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_blackhole_takes_everything_and_gives_nothing() {
    let (upstream, proxy) = pair().await;
    let mut raw = RawClient::connect(proxy.address()).await.unwrap();
    raw.write(GET).await.unwrap();
    raw.read_answer().await.unwrap();
    let before = proxy.bytes(Direction::Up);

    proxy.blackhole();
    raw.write(vec![b'x'; 8 << 20]).await.unwrap();
    assert_eq!(proxy.bytes(Direction::Up), before);
    // What was lost stays lost: the connection is of no use even afterwards, and a new one works.
    proxy.release();
    assert_eq!(upstream.total(), 1);
    assert_eq!(Client::new(proxy.address()).call(&Call::get("/")).await.unwrap().status, 200);
}

#[tokio::test]
async fn what_is_held_passes_after_the_release() {
    let (upstream, proxy) = pair().await;
    let mut raw = RawClient::connect(proxy.address()).await.unwrap();
    proxy.hold();
    raw.write(GET).await.unwrap();
    assert!(tokio::time::timeout(A_WHILE, raw.read_answer()).await.is_err());
    assert_eq!((proxy.bytes(Direction::Up), upstream.total()), (0, 0));

    proxy.release();
    assert_eq!(raw.read_answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn an_answer_can_be_held_while_its_request_has_passed() {
    let (upstream, proxy) = pair().await;
    let mut raw = RawClient::connect(proxy.address()).await.unwrap();
    raw.write(GATED).await.unwrap();
    upstream.arrived(1).await;
    proxy.hold();
    upstream.open("g");
    assert!(tokio::time::timeout(A_WHILE, raw.read_answer()).await.is_err());
    assert_eq!(proxy.bytes(Direction::Down), 0);
    proxy.release();
    assert_eq!(raw.read_answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn a_target_that_refuses_is_a_reset() {
    let proxy = FaultProxy::start(free_address().unwrap()).await;
    let mut raw = RawClient::connect(proxy.address()).await.unwrap();
    assert_eq!(raw.read_to_end().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}
