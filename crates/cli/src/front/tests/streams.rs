//! Unguarded traffic through the gateway: whole, in order, both ways, without being gathered on the way.

use std::time::Duration;

use super::*;

const TEN_MEGABYTES: usize = 10 * 1024 * 1024;

/// Bytes that a lost or doubled piece would show in.
fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|at| u8::try_from((at ^ (at >> 8) ^ (at >> 16)) & 0xff).unwrap()).collect()
}

#[tokio::test]
async fn ten_megabytes_go_both_ways() {
    for framed in [true, false] {
        let gateway = Gateway::before_scripted(move |_, mut peer| async move {
            let request = peer.message().await;
            let chunked = request.field("transfer-encoding") == Some("chunked");
            assert_eq!(chunked, !framed, "the framing is the client's");
            peer.send(answer(&request.body, framed)).await;
        })
        .await;
        let body = pattern(TEN_MEGABYTES);
        let mut client = gateway.client().await;
        let framing =
            if framed { format!("Content-Length: {}", body.len()) } else { "Transfer-Encoding: chunked".into() };
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n")).await;
        client.send(if framed { body.clone() } else { chunks(&body) }).await;
        let answer = client.message().await;
        assert_eq!(answer.field("content-length").is_some(), framed);
        assert!(answer.body == body);
    }
}

fn answer(body: &[u8], framed: bool) -> Vec<u8> {
    if framed {
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
    } else {
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &chunks(body)[..]].concat()
    }
}

fn chunks(body: &[u8]) -> Vec<u8> {
    let chunk = |data: &[u8]| [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat();
    [body.chunks(50_000).flat_map(chunk).collect::<Vec<u8>>(), b"0\r\n\r\n".to_vec()].concat()
}

#[tokio::test]
async fn each_piece_passes_before_the_next_is_sent() {
    let gateway = Gateway::before_scripted(|_, mut peer| async move {
        peer.head().await;
        assert_eq!(peer.bytes(8).await, b"3\r\none\r\n");
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        peer.send("b\r\ndata: one\n\n\r\n").await;
        assert_eq!(peer.bytes(8).await, b"3\r\ntwo\r\n");
        peer.send("b\r\ndata: two\n\n\r\n0\r\n\r\n").await;
    })
    .await;
    let mut client = gateway.client().await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n").await;
    assert!(client.head().await.unwrap().contains("text/event-stream"));
    assert_eq!(client.bytes(16).await, b"B\r\ndata: one\n\n\r\n");
    client.send("3\r\ntwo\r\n0\r\n\r\n").await;
    assert_eq!(client.bytes(21).await, b"B\r\ndata: two\n\n\r\n0\r\n\r\n");
}

/// Sends until the other side takes no more for a while; returns how much it took by then.
async fn send_until_stalled(peer: &mut Peer, limit: usize) -> usize {
    let piece = vec![b'x'; 64 * 1024];
    let mut sent = 0;
    while sent < limit {
        if tokio::time::timeout(Duration::from_millis(300), peer.send(&piece)).await.is_err() {
            break;
        }
        sent += piece.len();
    }
    sent
}

/// What the system alone buffers between three processes on one machine stays below this.
const BUFFERED: usize = 48 * 1024 * 1024;

#[tokio::test]
async fn a_client_that_does_not_read_stalls_the_upstream() {
    let (stalled, mut stalls) = mpsc::unbounded_channel();
    let gateway = Gateway::before_scripted(move |_, mut peer| {
        let stalled = stalled.clone();
        async move {
            peer.message().await;
            peer.send("HTTP/1.1 200 OK\r\n\r\n").await;
            stalled.send(send_until_stalled(&mut peer, 2 * BUFFERED).await).unwrap();
        }
    })
    .await;
    let mut client = gateway.client().await;
    client.send(GET).await;
    assert!(within(stalls.recv()).await.unwrap() < BUFFERED);
}

#[tokio::test]
async fn an_upstream_that_does_not_read_stalls_the_client() {
    let (release, held) = tokio::sync::oneshot::channel::<()>();
    let held = Arc::new(tokio::sync::Mutex::new(Some(held)));
    let gateway = Gateway::before_scripted(move |_, mut peer| {
        let held = Arc::clone(&held);
        async move {
            peer.head().await;
            let held = held.lock().await.take().unwrap();
            let _ = held.await;
        }
    })
    .await;
    let mut client = gateway.client().await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n").await;
    assert!(send_until_stalled(&mut client, 2 * BUFFERED).await < BUFFERED);
    drop(release);
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let gateway = Gateway::before_scripted(|_, mut peer| async move {
        let request = peer.message().await;
        assert_eq!((request.field("te"), &request.trailers[..]), (Some("trailers"), "x-in: 1"));
        peer.send(
            "HTTP/1.1 200 OK\r\nTrailer: X-Out\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Out: 2\r\n\r\n",
        )
        .await;
    })
    .await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\nTrailer: X-In\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = gateway.ask(format!("{head}2\r\nhi\r\n0\r\nX-In: 1\r\n\r\n")).await;
    assert_eq!((&answer.body[..], &answer.trailers[..]), (&b"ok"[..], "x-out: 2"));
}

#[tokio::test]
async fn answers_without_a_body_keep_the_connection_in_step() {
    let gateway = Gateway::before_scripted(|_, mut peer| async move {
        while let Some(request) = peer.try_message().await {
            peer.send(match request.start().split(' ').nth(1).unwrap() {
                "/head" => "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nETag: \"a\"\r\n\r\n",
                "/204" => "HTTP/1.1 204 No Content\r\n\r\n",
                "/304" => "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            })
            .await;
        }
    })
    .await;
    let mut client = gateway.client().await;
    for (method, path, status) in
        [("HEAD", "/head", "200 ok"), ("GET", "/204", "204 no content"), ("GET", "/304", "304 not modified")]
    {
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        let answer = Message { head: client.head().await.unwrap(), body: Vec::new(), trailers: String::new() };
        assert_eq!(answer.start(), format!("http/1.1 {status}"));
        assert_eq!(answer.field("content-length"), (method == "HEAD").then_some("1234"));
        client.send(GET).await;
        assert_eq!(client.message().await.body, b"ok");
    }
}

#[tokio::test]
async fn the_upstream_learns_the_clients_address() {
    let gateway = Gateway::before_scripted(|_, mut peer| async move {
        let forwarded = peer.message().await.field("x-forwarded-for").unwrap().to_owned();
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{forwarded}", forwarded.len())).await;
    })
    .await;
    assert_eq!(gateway.ask(GET).await.body, b"127.0.0.1");
    let known = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.2\r\n\r\n";
    assert_eq!(gateway.ask(known).await.body, b"192.0.2.1, 192.0.2.2, 127.0.0.1");
}

#[tokio::test]
async fn an_upstream_that_is_away_is_told_apart_from_one_that_may_have_executed() {
    let away = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let answer = Gateway::before(away).await.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1").await;
    assert_eq!((answer.start(), answer.field("retry-after")), ("http/1.1 502 bad gateway", Some("2")));
    assert_eq!(answer.field("oncekey-problem"), Some("upstream-unreachable"));

    let gateway = Gateway::before_scripted(|_, mut peer| async move { drop(peer.message().await) }).await;
    let answer = gateway.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1").await;
    assert_eq!(answer.start(), "http/1.1 504 gateway timeout");
    assert_eq!(answer.field("oncekey-problem"), Some("outcome-unknown"));
    assert_eq!(gateway.ask(GET).await.field("oncekey-problem"), Some("upstream-unreachable"));
}

#[tokio::test]
async fn an_answer_cut_short_is_cut_short_for_the_client_too() {
    for cut in ["Content-Length: 9\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
        let gateway = Gateway::before_scripted(move |_, mut peer| async move {
            peer.message().await;
            peer.send(format!("HTTP/1.1 200 OK\r\n{cut}")).await;
        })
        .await;
        let mut client = gateway.client().await;
        client.send(GET).await;
        client.head().await.unwrap();
        let rest = client.rest().await.unwrap_or_default();
        assert!(rest.len() < 10 && !rest.ends_with(b"0\r\n\r\n"), "{:?} looks whole", String::from_utf8_lossy(&rest));
    }
}

#[tokio::test]
async fn chunks_that_break_their_framing_do_not_reach_the_upstream_as_a_whole_request() {
    let (seen, mut told) = mpsc::unbounded_channel();
    let gateway = Gateway::before_scripted(move |_, mut peer| {
        let seen = seen.clone();
        async move { seen.send(peer.try_message().await.is_some()).unwrap() }
    })
    .await;
    let mut client = gateway.client().await;
    client
        .send(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nzz\r\n{GET}"))
        .await;
    assert_eq!(last_message(&mut client).await.start(), "http/1.1 400 bad request");
    assert_eq!(within(told.recv()).await, Some(false));
}

#[tokio::test]
async fn an_early_answer_of_the_upstream_reaches_a_client_that_is_still_sending() {
    let gateway = Gateway::before_scripted(|_, mut peer| async move {
        peer.head().await;
        peer.send("HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig").await;
        peer.end().await;
        let _ = peer.rest().await;
    })
    .await;
    let mut client = gateway.client().await;
    let upload = vec![b'x'; 4 * 1024 * 1024];
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", upload.len())).await;
    client.send(&upload).await;
    let answer = client.message().await;
    assert_eq!((answer.start(), &answer.body[..]), ("http/1.1 413 payload too large", &b"big"[..]));
}
