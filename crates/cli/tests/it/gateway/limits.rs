//! The bounds of a client connection: how many there are, how long a head, a body, an answer and a rest may take, how large
//! a head may be.

use oncekey_testkit::CountingUpstream;

use super::stand::{Gateway, order, raw_order};

const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

async fn start(settings: &str) -> (CountingUpstream, Gateway) {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), settings).await;
    (upstream, gateway)
}

#[tokio::test]
async fn heads_past_their_bounds_are_refused_and_the_connection_closes() {
    let (upstream, gateway) = start("max_header_bytes = \"8KiB\"\nmax_headers = 20\n").await;
    let many = "X-Many: a\r\n".repeat(20);
    let long = format!("X-Long: {}\r\n", "x".repeat(8 * 1024));
    for (what, lines) in [("many fields", many), ("a long field", long)] {
        let mut client = gateway.raw().await;
        client.write(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n{GET}")).await.expect("sent");
        let said = String::from_utf8(client.read_to_end().await.expect("an end in order")).expect("UTF-8");
        assert!(said.starts_with("HTTP/1.1 431 "), "{what}: {said}");
        assert_eq!(said.matches("HTTP/1.1").count(), 1, "{what}: {said}");
    }
    assert_eq!(upstream.total(), 0);
    gateway.end().await;
}

#[tokio::test]
async fn a_head_that_comes_too_slowly_ends_the_connection() {
    let (upstream, gateway) = start("head_timeout = \"100ms\"\n").await;
    for begun in ["G", "P", "PRI * HTTP/2.0\r\n\r\nS", "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "] {
        let mut client = gateway.raw().await;
        client.write(begun).await.expect("sent");
        assert_eq!(client.read_to_end().await.expect("an end in order"), b"", "{begun}");
    }
    // Behind an answer as well; the connection itself may rest for longer.
    let mut client = gateway.raw().await;
    client.write(GET).await.expect("sent");
    client.read_answer().await.expect("an answer");
    client.write("GET / HT").await.expect("sent");
    assert_eq!(client.read_to_end().await.expect("an end in order"), b"");
    assert_eq!(upstream.total(), 1);
    gateway.end().await;
}

#[tokio::test]
async fn a_connection_without_a_request_ends_and_one_with_a_slow_answer_does_not() {
    // Long enough for what is sent right after connecting, on a loaded machine too.
    let (upstream, gateway) = start("idle_timeout = \"1s\"\n").await;
    let mut busy = gateway.raw().await;
    busy.write(raw_order("k", &["X-Test-Gate: k"])).await.expect("sent");
    upstream.arrived(1).await;
    let (mut fresh, mut idle) = (gateway.raw().await, gateway.raw().await);
    idle.write(GET).await.expect("sent");
    idle.read_answer().await.expect("an answer");
    for client in [&mut fresh, &mut idle] {
        assert_eq!(client.read_to_end().await.expect("an end in order"), b"");
    }
    upstream.open("k");
    assert_eq!(busy.read_answer().await.expect("an answer").status, 201);
    let mut http2 = oncekey_testkit::FrameClient::connect(gateway.address).await.expect("connected");
    while http2.read().await.expect("frames").is_some() {}
    gateway.end().await;
}

#[tokio::test]
async fn a_body_that_stops_coming_is_given_up_and_nothing_is_claimed() {
    let (upstream, gateway) = start("body_timeout = \"100ms\"\n").await;
    let whole = raw_order("k", &[]);
    let begun = &whole[..whole.len() - 5];
    let chunks = b"POST /orders HTTP/1.1\r\nHost: a\r\nX-Account-Id: acc-1\r\nIdempotency-Key: k\r\n\
                   Transfer-Encoding: chunked\r\n\r\n5\r\n{\"amo";
    for begun in [begun, chunks] {
        let mut client = gateway.raw().await;
        client.write(begun).await.expect("sent");
        let answer = client.read_answer().await.expect("an answer");
        assert_eq!((answer.status, answer.values("oncekey-problem")), (400, vec!["request-invalid"]));
        assert_eq!(answer.values("connection"), ["close"]);
        assert_eq!(client.read_to_end().await.expect("an end in order"), b"");
    }
    assert_eq!(upstream.total(), 0);
    let answer = gateway.send(&order("k")).await;
    assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, false));
    gateway.end().await;
}

#[tokio::test]
async fn an_unguarded_body_that_stops_coming_is_given_up_too() {
    let (upstream, gateway) = start("body_timeout = \"100ms\"\n").await;
    let mut client = gateway.raw().await;
    client.write("PUT /f HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc").await.expect("sent");
    upstream.arrived(1).await;
    let answer = client.read_answer().await.expect("an answer");
    assert_eq!((answer.status, answer.values("oncekey-problem")), (400, vec!["request-invalid"]));
    gateway.end().await;
}

/// One that would write for hours holds its place until it is cut, and then another has it.
#[tokio::test]
async fn a_client_that_does_not_read_its_answer_loses_its_place() {
    let (_upstream, gateway) = start("write_timeout = \"300ms\"\nmax_connections = 1\n").await;
    let mut deaf = gateway.raw().await;
    deaf.write("GET / HTTP/1.1\r\nHost: a\r\nX-Test-Body-Bytes: 100000000\r\n\r\n").await.expect("sent");
    assert!(String::from_utf8_lossy(&deaf.read_until("\r\n\r\n").await.expect("a head")).starts_with("HTTP/1.1 200"));
    assert_eq!(gateway.send(&order("k")).await.status, 201);
    let rest = deaf.read_to_end().await;
    assert!(rest.as_ref().is_ok_and(|rest| rest.len() < 100_000_000) || rest.is_err(), "it was not cut");
    gateway.end().await;
}

#[tokio::test]
async fn with_all_places_taken_the_connection_that_is_idle_for_longest_makes_room() {
    let (upstream, gateway) = start("max_connections = 3\n").await;
    let (mut busy, mut oldest, mut newer) = (gateway.raw().await, gateway.raw().await, gateway.raw().await);
    busy.write(raw_order("slow", &["X-Test-Gate: g"])).await.expect("sent");
    upstream.arrived(1).await;
    for client in [&mut oldest, &mut newer] {
        client.write(GET).await.expect("sent");
        client.read_answer().await.expect("an answer");
    }
    let mut newcomer = gateway.raw().await;
    newcomer.write(GET).await.expect("sent");
    assert_eq!(newcomer.read_answer().await.expect("an answer").status, 200);
    assert_eq!(oldest.read_to_end().await.expect("an end in order"), b"");
    newer.write(GET).await.expect("sent");
    assert_eq!(newer.read_answer().await.expect("an answer").status, 200);
    upstream.open("g");
    assert_eq!(busy.read_answer().await.expect("an answer").status, 201);
    gateway.end().await;
}

#[tokio::test]
async fn while_none_is_idle_a_newcomer_waits() {
    let (upstream, gateway) = start("max_connections = 1\n").await;
    let mut busy = gateway.raw().await;
    busy.write(raw_order("slow", &["X-Test-Gate: g"])).await.expect("sent");
    upstream.arrived(1).await;
    let mut newcomer = gateway.raw().await;
    newcomer.write(GET).await.expect("sent");
    // It can't have been served: what it waits for stands still.
    assert_eq!(upstream.total(), 1);
    upstream.open("g");
    assert_eq!(busy.read_answer().await.expect("an answer").status, 201);
    assert_eq!(newcomer.read_answer().await.expect("an answer").status, 200);
    assert_eq!(busy.read_to_end().await.expect("an end in order"), b"");
    gateway.end().await;
}
