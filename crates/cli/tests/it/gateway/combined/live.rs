//! HTTP/2 through TLS on both sides while things change: a drain, new certificates, other routes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bytes::Bytes;
use oncekey_testkit::{PATIENCE, whole};
use tokio::task::JoinSet;

use super::super::stand::until;
use super::*;

const SECURED: Kind = Kind { http2: true, offers: Some(&[b"h2"]), setting: "auto" };

/// D4: what runs on a connection is answered, and then the connection ends in order.
#[tokio::test]
async fn a_drain_finishes_the_streams_of_a_tls_connection() {
    let ground = Ground::new();
    let behind = Behind::start(SECURED, &ground).await;
    let mut gateway = Gateway::start("", &format!("{}{}", behind.settings, ground.tls())).await;
    let clients = Clients::of(&gateway, Some(&ground)).await;
    let mut answers = JoinSet::new();
    for number in 0..20 {
        let call = order(&format!("k-{number}")).header("x-test-gate", "g");
        let (response, mut body) = clients.two.open(&call, false).await.expect("a stream");
        body.send_data(Bytes::from_static(b"{\"amount\":1200}"), true).expect("sent");
        answers.spawn(async move { whole(response.await.expect("an answer")).await.expect("a whole one") });
    }
    behind.upstream.arrived(20).await;
    gateway.process.terminate().expect("SIGTERM");
    until("the drain", async || (gateway.ask("/readyz").await.status == 503).then_some(())).await;
    behind.upstream.open("g");
    assert!(answers.join_all().await.iter().all(|answer| answer.status == 201));
    assert!(clients.two.over().await.is_none(), "it ends in order");
    assert!(gateway.process.exited(PATIENCE).await.expect("it ends").success());
    assert_eq!(behind.upstream.total(), 20);
}

/// Whatever is reloaded, connections and streams go on, and new ones find what is new.
#[tokio::test]
async fn no_stream_fails_while_certificates_and_routes_are_reloaded() {
    let ground = Ground::new();
    let behind = Behind::start(SECURED, &ground).await;
    let settings = |key: &str| {
        let routes = format!("[[route]]\npath = \"/orders\"\nmethods = [\"POST\"]\nkey = \"{key}\"\n");
        format!("{}{}{routes}", behind.settings, ground.tls())
    };
    let mut gateway = Gateway::start("", &settings("required")).await;
    let (done, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let mut clients = JoinSet::new();
    for number in 0..4 {
        let (done, asked, trust) = (Arc::clone(&done), Arc::clone(&asked), ground.trust().never_resuming());
        let address = gateway.address;
        clients.spawn(async move {
            let mut two = Http2Client::over_tls(address, &trust).await.expect("HTTP/2 is agreed on");
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                // Half of the clients stay on one connection.
                if number % 2 == 0 && count % 3 == 0 {
                    two = Http2Client::over_tls(address, &trust).await.expect("HTTP/2 is agreed on");
                }
                let call = order(&format!("k-{number}-{count}"));
                for replay in [false, true] {
                    let answer = two.call(&call).await.expect("no request fails");
                    assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, replay), "{answer:?}");
                }
                asked.fetch_add(1, Ordering::Relaxed);
                count += 1;
            }
        });
    }
    for number in 0..20 {
        ground.put("server", &ground.authority.issue(&["localhost"]));
        let (taken, said) = gateway.reload(&settings(if number % 2 == 0 { "optional" } else { "required" })).await;
        assert!(taken, "{said:?}");
    }
    done.store(true, Ordering::Relaxed);
    clients.join_all().await;
    assert_eq!(behind.upstream.total(), asked.load(Ordering::Relaxed));
    gateway.end().await;
}
