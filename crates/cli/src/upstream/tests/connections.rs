//! Connections: what failed before anything was sent, which connection serves again, and that nothing is sent twice.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use oncekey_engine::NotExecuted;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

use super::*;
use crate::upstream::lines::{Answered, Line};
use crate::upstream::secure::Offer;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// An address that nobody listens on.
async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// An upstream that counts its connections.
async fn counted<T>(serve: impl Fn(Peer) -> T + Send + 'static) -> (SocketAddr, Arc<AtomicUsize>)
where
    T: Future<Output = ()> + Send + 'static,
{
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let address = upstream(move |_, peer| {
        count.fetch_add(1, Ordering::Relaxed);
        serve(peer)
    })
    .await;
    (address, connections)
}

/// Answers each request.
async fn answer_all(mut peer: Peer, answer: &'static str) {
    while peer.try_message().await.is_some() {
        peer.send(answer).await;
    }
}

#[tokio::test]
async fn a_refused_connection_is_proof_that_nothing_was_executed() {
    let error = Subject::at(nobody().await).post().await.err().unwrap();
    assert!(NotExecuted::find(&error).is_some(), "{error:?}");
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_proof_that_nothing_was_executed() {
    assert!(is_not_sent(Subject::of("no-such-host.invalid:80").post().await));
}

#[tokio::test]
async fn a_connect_timeout_is_proof_that_nothing_was_executed() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let full = socket.listen(1).unwrap();
    let address = full.local_addr().unwrap();
    // Fills the queue of connections that nobody accepts; the system lets the next ones wait.
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
        queued.push(stream.unwrap());
    }
    assert!(is_not_sent(Subject::at(address).post().await));
}

#[tokio::test]
async fn each_address_of_a_name_is_tried() {
    // `localhost` is ::1 and 127.0.0.1 on most machines; only the latter listens here.
    let (address, _) = counted(|peer| answer_all(peer, OK)).await;
    let answer = Subject::of(&format!("localhost:{}", address.port())).post().await.unwrap();
    assert_eq!(whole(answer).await.unwrap(), "ok");
}

#[tokio::test]
async fn a_reset_before_anything_is_read_is_an_error_and_tried_twice_at_most() {
    let (address, connections) = counted(|peer| async move { peer.reset() }).await;
    assert!(Subject::at(address).post().await.is_err());
    assert!(connections.load(Ordering::Relaxed) <= 2);
}

/// The request arrives once, and what comes then is no answer.
async fn assert_broken(then: impl Fn(Peer) -> BoxFuture<'static, ()> + Send + Sync + 'static) {
    let received = Arc::new(AtomicUsize::new(0));
    let then = Arc::new(then);
    let count = Arc::clone(&received);
    let (address, _) = counted(move |mut peer| {
        let (count, then) = (Arc::clone(&count), Arc::clone(&then));
        async move {
            peer.message().await;
            count.fetch_add(1, Ordering::Relaxed);
            then(peer).await;
        }
    })
    .await;
    assert!(is_broken(Subject::at(address).post().await));
    assert_eq!(received.load(Ordering::Relaxed), 1, "never a second time");
}

#[tokio::test]
async fn a_reset_after_the_request_was_read_is_broken() {
    assert_broken(|peer| async move { peer.reset() }.boxed()).await;
}

#[tokio::test]
async fn a_close_without_an_answer_is_broken() {
    assert_broken(|peer| async move { drop(peer) }.boxed()).await;
}

#[tokio::test]
async fn a_head_cut_short_is_broken() {
    assert_broken(|mut peer| async move { peer.send("HTTP/1.1 201 Created\r\nContent-Le").await }.boxed()).await;
}

#[tokio::test]
async fn an_interim_answer_and_then_nothing_is_broken() {
    assert_broken(|mut peer| async move { peer.send("HTTP/1.1 100 Continue\r\n\r\n").await }.boxed()).await;
}

#[tokio::test]
async fn what_is_no_http_is_broken() {
    assert_broken(|mut peer| async move { peer.send("220 mail.example ESMTP\r\n").await }.boxed()).await;
}

#[tokio::test]
async fn an_unguarded_request_does_not_wait_for_ever() {
    let (address, _) = counted(|mut peer| async move { drop(peer.rest().await) }).await;
    let mut options = UpstreamOptions::at(address.to_string().parse().unwrap());
    options.head_timeout = Duration::from_millis(50);
    let clock = Arc::new(ManualClock::at(Timestamp::from_micros(0)));
    let hanging = Upstream::new(options, clock, Drain::new());
    assert!(is_broken(within(hanging.oneshot(unguarded(Method::GET, RequestBody::whole(Bytes::new())))).await));
}

#[tokio::test]
async fn a_connection_serves_again_once_its_answer_is_read() {
    let (address, connections) = counted(|peer| answer_all(peer, OK)).await;
    let subject = Subject::at(address);
    for _ in 0..5 {
        whole(subject.post().await.unwrap()).await.unwrap();
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_answer_without_a_body_frees_its_connection_at_once() {
    let (address, connections) = counted(|peer| answer_all(peer, "HTTP/1.1 204 No Content\r\n\r\n")).await;
    let subject = Subject::at(address);
    for _ in 0..3 {
        drop(subject.post().await.unwrap());
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

/// What it announced may follow, and would be read as the answer to someone else's request.
#[tokio::test]
async fn a_connection_whose_204_announced_a_body_is_not_used_again() {
    for framing in ["Content-Length: 2", "Transfer-Encoding: chunked"] {
        let answer: &'static str = format!("HTTP/1.1 204 No Content\r\n{framing}\r\n\r\n").leak();
        let (address, connections) = counted(move |peer| answer_all(peer, answer)).await;
        let subject = Subject::at(address);
        for _ in 0..3 {
            drop(subject.post().await.unwrap());
        }
        assert_eq!(connections.load(Ordering::Relaxed), 3, "{framing}");
    }
}

#[tokio::test]
async fn a_connection_idle_for_too_long_is_not_used_again() {
    let (address, connections) = counted(|peer| answer_all(peer, OK)).await;
    let subject = Subject::at(address);
    for (idle, opened) in [(0, 1), (999, 1), (1000, 2), (5000, 3)] {
        subject.clock.advance(Duration::from_millis(idle));
        whole(subject.post().await.unwrap()).await.unwrap();
        assert_eq!(connections.load(Ordering::Relaxed), opened, "after {idle} ms");
    }
}

#[tokio::test]
async fn an_idle_connection_that_the_upstream_closed_is_not_used() {
    let (closed, mut closings) = mpsc::unbounded_channel();
    let (address, _) = counted(move |mut peer| {
        let closed = closed.clone();
        async move {
            peer.message().await;
            peer.send(OK).await;
            drop(peer);
            closed.send(()).unwrap();
        }
    })
    .await;
    let subject = Subject::at(address);
    for _ in 0..50 {
        whole(subject.post().await.expect("an answer")).await.unwrap();
        within(closings.recv()).await.unwrap();
        // The system has closed it; that the event loop has heard so is what this waits for.
        within(subject.upstream.0.lines.pool.all_closed()).await;
    }
}

#[tokio::test]
async fn an_answer_dropped_before_its_end_closes_the_connection() {
    let (seen, mut ends) = mpsc::unbounded_channel();
    let (address, _) = counted(move |mut peer| {
        let seen = seen.clone();
        async move {
            peer.message().await;
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await;
            seen.send(peer.rest().await.is_ok_and(|more| more.is_empty())).unwrap();
        }
    })
    .await;
    drop(Subject::at(address).post().await.unwrap());
    assert!(within(ends.recv()).await.unwrap());
}

#[tokio::test]
async fn an_exchange_given_up_closes_the_connection() {
    let (seen, mut told) = mpsc::unbounded_channel();
    let (address, _) = counted(move |mut peer| {
        let seen = seen.clone();
        async move {
            peer.message().await;
            seen.send("read").unwrap();
            peer.rest().await.unwrap();
            seen.send("ended").unwrap();
        }
    })
    .await;
    let subject = Subject::at(address);
    let mut exchange = Box::pin(subject.post());
    tokio::select! {
        _ = &mut exchange => panic!("there is no answer"),
        read = told.recv() => assert_eq!(read, Some("read")),
    }
    drop(exchange);
    assert_eq!(within(told.recv()).await, Some("ended"));
}

#[tokio::test]
async fn a_connection_that_still_sends_a_body_does_not_serve_again() {
    let (address, connections) = counted(|mut peer| async move {
        // Answers by the head alone, and goes on reading.
        peer.head().await;
        peer.send(OK).await;
        let _ = peer.rest().await;
    })
    .await;
    let subject = Subject::at(address);
    let (unfinished, body) = channel_body();
    let upload = subject.send(unguarded(Method::POST, body)).await.unwrap();
    whole(upload).await.unwrap();
    whole(subject.post().await.unwrap()).await.unwrap();
    assert_eq!(connections.load(Ordering::Relaxed), 2);
    drop(unfinished);
}

#[tokio::test]
async fn an_attempt_that_may_not_begin_sends_nothing_and_keeps_the_connection() {
    let (address, connections) = counted(|peer| answer_all(peer, OK)).await;
    let subject = Subject::at(address);
    whole(subject.post().await.unwrap()).await.unwrap();
    let late = running().await;
    late.clock.advance(Duration::from_mins(1));
    late.store.purge(late.attempt.id).await.unwrap();
    assert!(is_not_sent(subject.send(keyed(late.attempt)).await));
    whole(subject.post().await.unwrap()).await.unwrap();
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_request_handed_back_unsent_goes_on_a_new_connection() {
    let (address, connections) = counted(|peer| answer_all(peer, OK)).await;
    let subject = Subject::at(address);
    let shared = &subject.upstream.0;
    let attempt = running().await.attempt;
    let closed = closed_sender().await;
    let sent = within(shared.send(Some(Line::One(closed)), keyed(attempt.clone()), Some(&attempt), Offer::One)).await;
    assert!(matches!(sent, Ok(Answered::One(response, _)) if response.status() == 200));
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_request_handed_back_unsent_and_no_new_connection_is_proof_that_nothing_was_executed() {
    let subject = Subject::at(nobody().await);
    let attempt = running().await.attempt;
    let closed = Some(Line::One(closed_sender().await));
    let sent = within(subject.upstream.0.send(closed, keyed(attempt.clone()), Some(&attempt), Offer::One)).await;
    assert!(is_not_sent(sent));
}

/// The sending half of a connection that its upstream has closed since it was taken.
async fn closed_sender() -> crate::upstream::pool::Sender {
    let (close, closing) = mpsc::unbounded_channel::<()>();
    let closing = Arc::new(tokio::sync::Mutex::new(closing));
    let address = upstream(move |_, mut peer| {
        let closing = Arc::clone(&closing);
        async move {
            peer.message().await;
            peer.send(OK).await;
            closing.lock().await.recv().await;
        }
    })
    .await;
    let subject = Subject::at(address);
    whole(subject.post().await.unwrap()).await.unwrap();
    let sender = subject.upstream.0.lines.pool.take().unwrap();
    close.send(()).unwrap();
    within(async {
        while !sender.is_closed() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    sender
}
