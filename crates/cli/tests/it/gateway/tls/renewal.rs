//! Certificates that change under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oncekey_testkit::CountingUpstream;
use oncekey_testkit::tls::TlsFront;
use tokio::task::JoinSet;

use super::super::stand::order;
use super::*;

const CLIENTS: usize = 4;
const RENEWALS: usize = 50;

/// Each client opens a connection for each request, so that handshakes meet every moment of a renewal.
async fn ask_until(done: Arc<AtomicBool>, address: std::net::SocketAddr, trust: Trust, number: usize) -> usize {
    let mut asked = 0;
    while !done.load(Ordering::Relaxed) || asked == 0 {
        let key = format!("k-{number}-{asked}");
        let answer = Client::over_tls(address, trust.clone()).call(&order(&key)).await;
        assert_eq!(answer.expect("no request fails").status, 201);
        asked += 1;
    }
    asked
}

/// The certificate that a new connection is shown.
async fn shown(gateway: &Gateway, trust: &Trust) -> Vec<u8> {
    let stream = tokio::net::TcpStream::connect(gateway.address).await.expect("connected");
    let stream = trust.connect(stream).await.expect("TLS is established");
    stream.get_ref().1.peer_certificates().expect("a server shows one")[0].to_vec()
}

/// Replaces the certificate and has it read.
async fn renew(gateway: &mut Gateway, ground: &Ground, trust: &Trust) {
    let issued = ground.authority.issue(&["localhost"]);
    ground.put("server", &issued);
    let (taken, said) = gateway.reload(&ground.tls()).await;
    assert!(taken, "{said:?}");
    assert_eq!(shown(gateway, trust).await, issued.chain()[0].to_vec());
}

#[tokio::test]
async fn no_request_fails_while_certificates_are_renewed() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let mut gateway = Gateway::start(&upstream.url(), &ground.tls()).await;
    let done = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        // Full handshakes: a resumed one isn't shown the certificate.
        clients.spawn(ask_until(Arc::clone(&done), gateway.address, ground.trust().never_resuming(), number));
    }
    let trust = ground.trust().never_resuming();
    for _ in 0..RENEWALS {
        renew(&mut gateway, &ground, &trust).await;
    }
    done.store(true, Ordering::Relaxed);
    let asked: usize = clients.join_all().await.iter().sum();
    assert_eq!(upstream.total() as usize, asked);

    // The control: a client does fail when what it is shown isn't right.
    ground.put("server", &Authority::new("another root").issue(&["localhost"]));
    assert!(gateway.reload(&ground.tls()).await.0);
    Client::over_tls(gateway.address, trust).call(&order("k")).await.expect_err("an unknown authority");
    gateway.end().await;
}

#[tokio::test]
async fn a_wrong_certificate_is_refused_and_the_old_one_stays() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let mut gateway = Gateway::start(&upstream.url(), &ground.tls()).await;
    let trust = ground.trust().never_resuming();
    let before = shown(&gateway, &trust).await;
    ground.write("server.pem", &ground.authority.issue(&["localhost"]).cert);
    let (taken, said) = gateway.reload(&ground.tls()).await;
    assert!(!taken);
    assert!(
        said.iter().any(|line| line.contains("tls.key: ") && line.contains("isn't that of the certificate")),
        "{said:?}"
    );
    assert_eq!(shown(&gateway, &trust).await, before);
    renew(&mut gateway, &ground, &trust).await;
    gateway.end().await;
}

#[tokio::test]
async fn a_reload_may_move_to_an_upstream_behind_tls() {
    let (ground, upstream) = (Ground::new(), CountingUpstream::start().await);
    let plain = format!("upstream = \"{}\"\n", upstream.url());
    let mut gateway = Gateway::start("", &plain).await;
    assert_eq!(gateway.send(&order("a")).await.status, 201);
    let config = Authority::server(&ground.authority.issue(&["localhost"]), None);
    let front = TlsFront::start(upstream.address(), config).await;
    let secured = format!("upstream = \"{}\"\n{}", front.local_url(), ground.upstream_tls());
    let (taken, said) = gateway.reload(&secured).await;
    assert!(taken, "{said:?}");
    assert_eq!(gateway.send(&order("b")).await.status, 201);
    assert_eq!((front.established(), upstream.total()), (1, 2));

    // A file that isn't there refuses the reload whole.
    let (taken, _) = gateway.reload(&secured.replace("ca.pem", "absent.pem")).await;
    assert!(!taken);
    assert_eq!(gateway.send(&order("c")).await.status, 201);

    // A listener changes to TLS by a restart only.
    let (taken, said) = gateway.reload(&format!("{secured}{}", ground.tls())).await;
    assert!(taken && said.iter().any(|line| line.contains("tls.cert, tls.key")), "{said:?}");
    assert_eq!(gateway.send(&order("d")).await.status, 201);
    gateway.end().await;
}
