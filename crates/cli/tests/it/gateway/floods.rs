//! Clients of HTTP/2 that mean harm: the gateway stays up, takes little memory for them, asks the upstream for little, and
//! serves others meanwhile.

use std::io;

use oncekey_testkit::frames::{Outcome, block, encoded, field, flag, kind};
use oncekey_testkit::{CountingUpstream, FrameClient, PATIENCE};

use super::stand::{Gateway, order};

/// What one connection may make the gateway take, at most.
const BOUND: u64 = 32 * 1024 * 1024;

/// How much of a flood is sent at a time, and at most.
const PIECE: usize = 64 * 1024;
const FLOOD: usize = 64 * 1024 * 1024;

/// Lets a flood loose on a gateway, which must end the connection, and sees what it did.
async fn survives(settings: &str, begin: impl AsRef<[u8]>, mut next: impl FnMut(u32) -> Vec<u8>) -> CountingUpstream {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), settings).await;
    gateway.send(&order("before")).await;
    let before = gateway.process.memory().expect("its memory").peak;
    let mut client = FrameClient::connect(gateway.address).await.expect("connected");
    client.write(begin).await.expect("sent");
    let (mut sent, mut number) = (0, 0);
    while sent < FLOOD {
        let mut piece = Vec::new();
        while piece.len() < PIECE {
            piece.extend(next(number));
            number += 1;
        }
        sent += piece.len();
        match client.write(piece).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => panic!("it is neither read nor ended"),
            Err(_) => break,
        }
    }
    let answer = gateway.send(&order("after")).await;
    assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, false));
    let grown = gateway.process.memory().expect("its memory").peak - before;
    assert!(grown < BOUND, "{grown} bytes more");
    // Not by the gateway's `idle_timeout`, which is longer.
    let ended = async { while client.read().await.expect("an end, not silence").is_some() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the gateway ends the connection");
    gateway.end().await;
    upstream
}

/// The number of a client's stream, counted from 0.
const fn stream(number: u32) -> u32 {
    2 * number + 1
}

fn get(stream: u32, more: &[(&str, &str)]) -> Vec<u8> {
    let fields = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
    encoded(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block(&[&fields[..], more].concat()))
}

fn reset(stream: u32) -> Vec<u8> {
    encoded(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes())
}

/// CVE-2023-44487: more streams than may run at a time, by resetting each at once.
#[tokio::test]
async fn a_client_that_resets_what_it_asks_for_is_sent_away() {
    let upstream = survives("", "", |number| {
        let stream = stream(number);
        [get(stream, &[("x-test-gate", "never")]), reset(stream)].concat()
    })
    .await;
    assert!(upstream.total() < 500, "{} requests reached the upstream", upstream.total());
}

/// CVE-2025-8671: the same by making the server reset them.
#[tokio::test]
async fn a_client_that_makes_the_gateway_reset_its_streams_is_sent_away() {
    let upstream = survives("", "", |number| {
        let stream = stream(number);
        let nothing = encoded(kind::WINDOW_UPDATE, 0, stream, &0_u32.to_be_bytes());
        [get(stream, &[("x-test-gate", "never")]), nothing].concat()
    })
    .await;
    assert!(upstream.total() < 500, "{} requests reached the upstream", upstream.total());
}

/// CVE-2024-27316: a head that never ends.
#[tokio::test]
async fn a_head_of_endless_continuations_ends_the_connection() {
    let begin = encoded(kind::HEADERS, 0, 1, &block(&[(":method", "GET")]));
    survives("", begin, |_| encoded(kind::CONTINUATION, 0, 1, &field("x-more", "x".repeat(1000)))).await;
    let begin = encoded(kind::HEADERS, 0, 1, &block(&[(":method", "GET")]));
    survives("", begin, |_| encoded(kind::CONTINUATION, 0, 1, b"")).await;
}

/// A large field that a table has learned costs its client one byte each time.
#[tokio::test]
async fn a_head_that_unpacks_to_megabytes_ends_the_connection() {
    survives("", "", |number| {
        let mut packed = block(&[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")]);
        let mut learned = field("x-bomb", "x".repeat(3900));
        learned[0] = 0x40;
        packed.extend(learned);
        packed.extend([0xbe; 8000]);
        encoded(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream(number), &packed)
    })
    .await;
}

/// What has to be answered piles up nowhere: a client that doesn't read the answers isn't read itself, and given up.
#[tokio::test]
async fn a_client_that_pings_and_does_not_listen_is_given_up() {
    let brief = "write_timeout = \"300ms\"\n";
    survives(brief, "", |_| encoded(kind::PING, 0, 0, b"answer !")).await;
    survives(brief, "", |_| encoded(kind::SETTINGS, 0, 0, b"")).await;
}

#[tokio::test]
async fn answers_that_nobody_takes_are_given_up() {
    let brief = "write_timeout = \"300ms\"\n";
    let more = [("x-test-body-bytes", "60000")];
    survives(brief, "", |number| get(stream(number), &more)).await;
}

#[tokio::test]
async fn a_body_of_empty_pieces_ends_the_connection() {
    let fields = [(":method", "PUT"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
    let begin = encoded(kind::HEADERS, flag::END_HEADERS, 1, &block(&fields));
    survives("", begin, |_| encoded(kind::DATA, 0, 1, b"")).await;
}

/// By flow control of HTTP/2, which the system's sockets don't see.
#[tokio::test]
async fn an_answer_that_is_not_taken_is_reset_and_its_connection_goes_on() -> io::Result<()> {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "write_timeout = \"300ms\"\n").await;
    let mut client = FrameClient::connect(gateway.address).await?;
    // Each of its streams may be sent ten bytes.
    client.send(kind::SETTINGS, 0, 0, [0, 4, 0, 0, 0, 10]).await?;
    client.write(get(1, &[("x-test-body-bytes", "1000000")])).await?;
    assert_eq!(client.reset_code(1).await?, Some(8));
    client.write(get(3, &[("x-test-body", "none")])).await?;
    assert_eq!(client.outcome(3).await?, Outcome::Answered(200));
    // One that fits into what is buffered for its stream can only be taken back with the connection.
    client.write(get(5, &[("x-test-body-bytes", "1000")])).await?;
    while client.read().await?.is_some() {}
    assert_eq!(gateway.send(&order("k")).await.status, 201);
    gateway.end().await;
    Ok(())
}

/// Heads of bodies that never come: what they announce takes no memory before there is room for it (W3).
#[tokio::test]
async fn announced_bodies_take_no_memory_before_they_have_room() -> io::Result<()> {
    const STREAMS: u32 = 100;
    const ANNOUNCED: u64 = 64 * 1024 * 1024;
    let upstream = CountingUpstream::start().await;
    let settings = "max_buffered = \"1MiB\"\n[defaults]\nmax_request = \"64MiB\"\nanswer_timeout = \"1s\"\n";
    let gateway = Gateway::start(&upstream.url(), settings).await;
    let before = gateway.process.memory()?.reserved;
    let mut client = FrameClient::connect(gateway.address).await?;
    for stream in (0..STREAMS).map(|number| 2 * number + 1) {
        let key = stream.to_string();
        let head = block(&[
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "a"),
            (":path", "/orders"),
            ("x-account-id", "acc-1"),
            ("idempotency-key", &key),
            ("content-length", &ANNOUNCED.to_string()),
        ]);
        client.head(stream, head, false).await?;
    }
    for _ in 0..STREAMS {
        while client.read().await?.expect("each is answered").kind != kind::HEADERS {}
    }
    let grown = gateway.process.memory()?.reserved - before;
    assert!(grown < u64::from(STREAMS) * ANNOUNCED / 4, "{grown} bytes");
    drop(client);
    gateway.end().await;
    Ok(())
}
