//! Clients of HTTP/2: what holds for a connection's requests holds for each of its streams (E1, E3, H1–H3, D4).

use std::io;

use bytes::Bytes;
use oncekey_testkit::frames::{Outcome, block, flag, kind};
use oncekey_testkit::{Call, CountingUpstream, FrameClient, Http2Client, PATIENCE, whole};
use tokio::task::JoinSet;

use super::stand::{Gateway, order, until};

impl Gateway {
    async fn http2(&self) -> Http2Client {
        Http2Client::connect(self.address).await.expect("connected")
    }

    async fn frames(&self) -> FrameClient {
        FrameClient::connect(self.address).await.expect("connected")
    }
}

/// The head of an order of account acc-1, with further fields.
fn order_head(key: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut fields = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "api.example"),
        (":path", "/orders"),
        ("x-account-id", "acc-1"),
        ("idempotency-key", key),
        ("content-type", "application/json"),
    ];
    fields.extend_from_slice(more);
    block(&fields)
}

#[tokio::test]
async fn an_order_is_executed_once_and_goes_on_in_the_form_of_its_next_hop() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let client = gateway.http2().await;
    let call = order("k").header("cookie", "a=1").header("cookie", "b=2").header("te", "trailers");
    let (first, replay) = (client.call(&call).await.expect("an answer"), client.call(&call).await.expect("an answer"));
    assert_eq!((first.status.as_u16(), first.is_replay()), (201, false), "{first:?}");
    assert_eq!((replay.status.as_u16(), replay.is_replay(), &replay.body), (201, true, &first.body));
    // The same order by HTTP/1.1 is the same request.
    assert!(gateway.send(&call).await.is_replay());
    assert_eq!(upstream.executions("acc-1", "k"), 1);
    let headers = &upstream.arrivals()[0].headers;
    for (name, value) in [
        ("host", &*gateway.address.to_string()),
        ("via", "2.0 oncekey"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-for", "127.0.0.1"),
        ("cookie", "a=1; b=2"),
        ("content-length", "15"),
    ] {
        assert!(headers.get_all(name).iter().eq([value]), "{name}: {headers:?}");
    }
    gateway.end().await;
}

#[tokio::test]
async fn twenty_streams_with_one_key_are_one_execution() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "[defaults]\nwait = \"50s\"\n").await;
    let client = gateway.http2().await;
    let call = order("one").header("x-test-gate", "one");
    let mut answers = JoinSet::new();
    for _ in 0..20 {
        let (response, mut body) = client.open(&call, false).await.expect("a stream");
        body.send_data(Bytes::from_static(b"{\"amount\":1200}"), true).expect("sent");
        answers.spawn(async move { whole(response.await.expect("an answer")).await.expect("a whole one") });
    }
    upstream.arrived(1).await;
    upstream.open("one");
    let answers = answers.join_all().await;
    assert!(answers.iter().all(|answer| answer.status == 201 && answer.body == answers[0].body));
    assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
    assert_eq!(upstream.executions("acc-1", "one"), 1);
    gateway.end().await;
}

/// E3: the request was whole, so its execution goes on.
#[tokio::test]
async fn a_reset_behind_a_whole_request_changes_nothing() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let mut client = gateway.frames().await;
    client.head(1, order_head("k", &[("x-test-gate", "k")]), false).await.expect("sent");
    client.data(1, "{\"amount\":1200}", true).await.expect("sent");
    upstream.arrived(1).await;
    client.reset(1).await.expect("sent");
    // The connection goes on, and has read the reset by now.
    client
        .head(3, block(&[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")]), true)
        .await
        .expect("sent");
    assert_eq!(client.outcome(3).await.expect("frames"), Outcome::Answered(200));
    upstream.open("k");
    let replay = until("the outcome", async || {
        let answer = gateway.send(&order("k").header("x-test-gate", "k")).await;
        (answer.status == 201).then_some(answer)
    })
    .await;
    assert!(replay.is_replay());
    assert_eq!(upstream.executions("acc-1", "k"), 1);
    gateway.end().await;
}

#[tokio::test]
async fn a_reset_within_the_body_claims_nothing() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let mut client = gateway.frames().await;
    client.head(1, order_head("k", &[]), false).await.expect("sent");
    client.data(1, "{\"amount\":12", false).await.expect("sent");
    client.reset(1).await.expect("sent");
    client.head(3, order_head("k", &[]), false).await.expect("sent");
    client.data(3, "{\"amount\":1300}", true).await.expect("sent");
    assert_eq!(client.outcome(3).await.expect("frames"), Outcome::Answered(201));
    assert_eq!(upstream.total(), 1, "{:?}", upstream.arrivals());
    gateway.end().await;
}

/// Whatever code a reset has, a body that it ends isn't whole; NO_ERROR, which some clients send when they give up, is no
/// END_STREAM.
#[tokio::test]
async fn a_reset_without_an_error_ends_no_body() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    for (key, length) in [("open", None), ("length", Some(("content-length", "15")))] {
        let mut client = gateway.frames().await;
        client.head(1, order_head(key, length.as_slice()), false).await.expect("sent");
        client.data(1, "{\"amount\":12", false).await.expect("sent");
        client.heard().await;
        client.send(kind::RST_STREAM, 0, 1, 0_u32.to_be_bytes()).await.expect("sent");
        client.head(3, order_head(key, &[]), false).await.expect("sent");
        client.data(3, "{\"amount\":1200}", true).await.expect("sent");
        assert_eq!(client.outcome(3).await.expect("frames"), Outcome::Answered(201), "{key}");
        assert_eq!(upstream.executions("acc-1", key), 1, "{:?}", upstream.arrivals());
    }
    // Unguarded, the upstream must see that there is an end missing.
    let mut client = gateway.frames().await;
    let put = [(":method", "PUT"), (":scheme", "http"), (":authority", "a"), (":path", "/f"), ("x-test-body", "none")];
    client.head(1, block(&put), false).await.expect("sent");
    client.data(1, "half", false).await.expect("sent");
    upstream.arrived(3).await;
    client.send(kind::RST_STREAM, 0, 1, 0_u32.to_be_bytes()).await.expect("sent");
    client.head(3, block(&put), true).await.expect("sent");
    assert_eq!(client.outcome(3).await.expect("frames"), Outcome::Answered(200));
    drop(client);
    gateway.end().await;
    assert_eq!(upstream.bodies(), 3, "two orders, and the empty body behind the half one");
}

#[tokio::test]
async fn a_connection_that_breaks_within_a_body_claims_nothing() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let mut client = gateway.frames().await;
    client.head(1, order_head("k", &[]), false).await.expect("sent");
    client.data(1, "{\"amount\":12", false).await.expect("sent");
    drop(client);
    let answer = gateway.send(&order("k")).await;
    assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, false));
    assert_eq!(upstream.total(), 1);
    gateway.end().await;
}

/// H3: what the answer comes before is not wanted any more, and the connection goes on.
#[tokio::test]
async fn an_early_answer_resets_the_stream_behind_it_without_an_error() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "[defaults]\nmax_request = \"8KiB\"\n").await;
    let mut client = gateway.frames().await;
    for (stream, key, length, status) in
        [(1, "long", Some("20000"), 413), (3, "chunks", None, 413), (5, "not a key", Some("15"), 400)]
    {
        let length: Vec<_> = length.map(|length| ("content-length", length)).into_iter().collect();
        client.head(stream, order_head(key, &length), false).await.expect("sent");
        if key == "chunks" {
            client.data(stream, vec![b'x'; 9000], false).await.expect("sent");
        }
        let outcome = client.outcome(stream).await.expect("frames");
        assert_eq!(outcome, Outcome::Answered(status), "{key}");
        assert_eq!(client.reset_code(stream).await.expect("frames"), Some(0), "{key}");
        // What was on its way does no harm.
        client.data(stream, "x", true).await.expect("sent");
    }
    client.head(7, order_head("k", &[]), false).await.expect("sent");
    client.data(7, "{\"amount\":1200}", true).await.expect("sent");
    assert_eq!(client.outcome(7).await.expect("frames"), Outcome::Answered(201));
    assert_eq!(upstream.total(), 1);
    gateway.end().await;
}

#[tokio::test]
async fn an_expectation_is_met_by_the_answer() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let client = gateway.http2().await;
    let answer = client.call(&order("k").header("expect", "100-continue")).await.expect("an answer");
    assert_eq!(answer.status, 201);
    assert!(!upstream.arrivals()[0].headers.contains_key("expect"));
    gateway.end().await;
}

#[tokio::test]
async fn trailers_of_an_answer_arrive() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let call = Call::get("/a").header("te", "trailers").header("x-test-framing", "chunked");
    let answer = gateway.http2().await.call(&call.header("x-test-trailer", "X-Sum: 42")).await.expect("an answer");
    assert_eq!((answer.status.as_u16(), answer.trailers["x-sum"].to_str().expect("text")), (200, "42"));
    gateway.end().await;
}

#[tokio::test]
async fn large_bodies_stream_both_ways() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let client = gateway.http2().await;
    let sent = vec![7; 8 * 1024 * 1024];
    let answer = client.call(&Call::new(http::Method::PUT, "/f").body(sent)).await.expect("an answer");
    assert_eq!(answer.status, 200);
    upstream.received(1).await;
    assert_eq!(upstream.arrivals()[0].headers["transfer-encoding"], "chunked");
    let answer = client.call(&Call::get("/f").header("x-test-body-bytes", "8388608")).await.expect("an answer");
    assert!(answer.body == oncekey_testkit::payload(2, 8_388_608));
    gateway.end().await;
}

/// D4: first it is said that no more is wanted, then from which stream on nothing is done; what runs ends.
#[tokio::test]
async fn a_drain_says_goodbye_twice_and_finishes_what_runs() {
    let upstream = CountingUpstream::start().await;
    let mut gateway = Gateway::start(&upstream.url(), "").await;
    let mut client = gateway.frames().await;
    client.head(1, order_head("k", &[("x-test-gate", "k")]), false).await.expect("sent");
    client.data(1, "{\"amount\":1200}", true).await.expect("sent");
    upstream.arrived(1).await;
    let idle = gateway.http2().await;
    gateway.process.terminate().expect("SIGTERM");
    assert_eq!(goodbye(&mut client).await, (0x7fff_ffff, 0));
    assert_eq!(goodbye(&mut client).await, (1, 0));
    assert!(idle.over().await.is_none(), "an idle connection ends in order");
    // Past that id nothing is done, and its client may send it elsewhere.
    client.head(3, order_head("late", &[]), false).await.expect("sent");
    client.data(3, "{\"amount\":1200}", true).await.expect("sent");
    upstream.open("k");
    let mut answered = false;
    while let Some(frame) = client.read().await.expect("frames") {
        assert!(frame.stream != 3 || frame.kind == kind::RST_STREAM, "{frame:?}");
        answered |= frame.stream == 1 && frame.flags & flag::END_STREAM != 0;
    }
    assert!(answered);
    assert_eq!(upstream.total(), 1, "{:?}", upstream.arrivals());
    assert!(gateway.process.exited(PATIENCE).await.expect("it ends").success());
}

/// Reads on to the next GOAWAY: its last stream and its error code.
async fn goodbye(client: &mut FrameClient) -> (u32, u32) {
    loop {
        let frame = client.read().await.expect("frames").expect("no end before it");
        if frame.kind == kind::GOAWAY {
            let number = |at: usize| u32::from_be_bytes(frame.payload[at..at + 4].try_into().expect("four bytes"));
            return (number(0), number(4));
        }
    }
}

/// A client that doesn't answer pings must not hold the drain up for its whole length.
#[tokio::test]
async fn a_drain_does_not_wait_for_a_client_that_says_nothing() {
    let upstream = CountingUpstream::start().await;
    let mut gateway = Gateway::start(&upstream.url(), "drain = \"1h\"\n").await;
    let mut silent = gateway.frames().await;
    assert_eq!(silent.read().await.expect("frames").expect("settings").kind, kind::SETTINGS);
    let mut begun = gateway.raw().await;
    begun.write("PRI * HT").await.expect("sent");
    gateway.process.terminate().expect("SIGTERM");
    assert!(gateway.process.exited(PATIENCE).await.expect("it ends").success());
    drop((silent, begun));
}

#[tokio::test]
async fn one_connection_may_ask_much_at_a_time_and_more_waits() -> io::Result<()> {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "max_streams = 3\n").await;
    let mut client = gateway.frames().await;
    for stream in [1, 3, 5, 7] {
        client.head(stream, order_head(&stream.to_string(), &[("x-test-gate", "g")]), false).await?;
        client.data(stream, "{}", true).await?;
    }
    // REFUSED_STREAM: it was not looked at, and may be sent again.
    assert_eq!(client.outcome(7).await?, Outcome::Reset(7));
    upstream.arrived(3).await;
    upstream.open("g");
    assert_eq!(client.outcome(5).await?, Outcome::Answered(201));
    assert_eq!(upstream.total(), 3);
    gateway.end().await;
    Ok(())
}
