//! Requests under content codings: one request however it is compressed, forwarded as sent, decoded within bounds (F6).

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::Request;

use crate::bodies::{TestBody, fed, full};
use crate::harness::*;

const KIB: usize = 1024;

fn gzip(body: impl AsRef<[u8]>, level: u32) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(body.as_ref()).unwrap();
    encoder.finish().unwrap()
}

fn json(key: &str, coding: &str, body: Vec<u8>) -> Request<TestBody> {
    let request = post(key).header("Content-Type", "application/json");
    let request = if coding.is_empty() { request } else { request.header("Content-Encoding", coding) };
    request.body(full(body)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_retry_may_be_compressed_otherwise_or_not_at_all() {
    let world = World::of(Upstream::counting()).await;
    let order = format!("{{\"amount\": 1200{}}}", " ".repeat(500_000));
    let sent = gzip(&order, 9);
    assert_eq!(world.send(json("k", "gzip", sent.clone())).await.status(), 201);
    {
        let seen = world.seen.lock();
        assert_eq!(seen[0].body(), &sent);
        assert_eq!(seen[0].headers()["content-encoding"], "gzip");
    }
    for retry in
        [json("k", "gzip", sent), json("k", "x-gzip", gzip(&order, 0)), json("k", "", b"{\"amount\":12e2}".into())]
    {
        assert!(replayed(&world.send(retry).await));
    }
    let other = world.send(json("k", "gzip", gzip("{\"amount\":1201}", 9))).await;
    assert_eq!((problem(&other), world.runs()), (Some("key-reused"), 1));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_decode_is_the_upstreams_to_judge() {
    let world = World::of(Upstream::counting()).await;
    for (key, coding, body) in [("k-1", "gzip", "not gzip"), ("k-2", "unheard-of", "{}"), ("k-3", "br, gzip", "{}")] {
        let request = || json(key, coding, body.into());
        assert_eq!(world.send(request()).await.status(), 201);
        assert!(replayed(&world.send(request()).await));
        let other = json(key, coding, format!("{body} ").into());
        assert_eq!(problem(&world.send(other).await), Some("key-reused"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_decodes_to_more_than_max_request_is_refused_and_claims_nothing() {
    for (max, offloaded) in [(100 * KIB, false), (1000 * KIB, true)] {
        let world = Setup::guarded(|guard| guard.max_request = max as u64).start(Upstream::counting()).await;
        let sized = |size: usize| gzip(vec![b' '; size], 6);
        let answer = world.send(json("k", "gzip", sized(max + 1))).await;
        assert_eq!((answer.status().as_u16(), problem(&answer)), (413, Some("body-too-large")), "{offloaded}");
        let detail: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
        assert!(detail["detail"].as_str().unwrap().contains(&format!("{max} bytes once it is decoded")), "{detail}");
        assert_eq!((world.runs(), world.state("k").await), (0, None));
        let rejected = ("/orders".to_owned(), "rejected".to_owned());
        assert_eq!(world.counted().into_iter().collect::<Vec<_>>(), [(rejected, 1)]);
        assert_eq!(world.send(json("k", "gzip", sized(max))).await.status(), 201);
    }
}

/// Room for so many KiB of requests; a body may decode to 150 KiB.
async fn tiny(kib: usize, upstream: Upstream) -> World {
    let setup = Setup::guarded(|guard| guard.max_request = 150 * KIB as u64);
    Setup { budget: (kib * KIB / 2 * 3) as u64, ..setup }.start(upstream).await
}

/// A body that the test feeds. Its length isn't known, and it isn't small, so it takes room for the largest.
fn slow(key: &str, coding: &str) -> (crate::bodies::Feed, Request<TestBody>) {
    let (feed, body) = fed();
    feed.send(Ok(vec![b'{'; 65 * KIB].into())).unwrap();
    (feed, post(key).header("Content-Encoding", coding).body(body).unwrap())
}

#[tokio::test(start_paused = true)]
async fn room_for_decoding_is_taken_with_the_bodys_before_reading() {
    let plain = |key: &str| post(key).body(full(vec![7; 150 * KIB])).unwrap();
    for (coding, fits) in [("identity", true), ("gzip", false)] {
        let world = tiny(400, Upstream::counting()).await;
        let (_feed, request) = slow("slow", coding);
        let _reading = world.spawn(request);
        settle().await;
        let beside = world.spawn(plain("k"));
        settle().await;
        assert_eq!(beside.is_finished(), fits, "150 KiB are taken under identity, 300 under gzip: {coding}");
    }
}

#[tokio::test(start_paused = true)]
async fn room_for_decoding_is_given_back_before_the_request_executes() {
    let (gate, upstream) = crate::budget::gated(|| created(""));
    let world = tiny(500, upstream).await;
    // Each takes 300 of 500 KiB until it is read, and 150 then.
    let two: Vec<_> = ["k-1", "k-2"]
        .map(|key| {
            let (feed, request) = slow(key, "gzip");
            feed.send(Ok(gzip("{}", 6).into())).unwrap();
            world.spawn(request)
        })
        .into();
    settle().await;
    assert_eq!(world.runs(), 2, "the second waits for the first to be read, not for its end");
    gate.notify_one();
    gate.notify_waiters();
    for client in two {
        assert_eq!(client.await.unwrap().status(), 201);
    }
}

#[tokio::test(start_paused = true)]
async fn many_large_bodies_at_once_are_all_read() {
    let world = World::of(Upstream::counting()).await;
    let body = gzip(format!("[{}0]", "1,".repeat(300_000)), 6);
    let clients: Vec<_> =
        (0..32).map(|number| world.spawn(json(&format!("k-{number}"), "gzip", body.clone()))).collect();
    for client in clients {
        assert_eq!(client.await.unwrap().status(), 201);
    }
    assert_eq!(world.runs(), 32);
}
