//! HTTP/2: how many streams a connection carries, and who waits for one.

use std::sync::atomic::Ordering;

use tokio::sync::mpsc;

use super::h2_connections::counted;
use super::*;
use crate::scripted::frames::{HEADERS, MAX_STREAMS};

/// Answers nothing before `together` requests have come, then all of them.
async fn answer_together(peer: Peer, together: usize, settings: &'static [(u16, u32)]) {
    let mut frames = Frames::begin(peer, settings).await;
    let mut streams = Vec::new();
    while let Some(frame) = frames.next().await {
        if frame.kind == HEADERS {
            streams.push(frame.stream);
        }
        if streams.len() == together {
            for stream in streams.drain(..) {
                frames.ok(stream).await;
            }
        }
    }
}

#[tokio::test]
async fn one_connection_carries_many_exchanges_at_a_time() {
    let (subject, connections) = counted(|_| {}, |_, peer| answer_together(peer, 20, &[])).await;
    let answers = futures_util::future::join_all((0..20).map(|_| subject.post())).await;
    for answer in answers {
        assert_eq!(whole(answer.unwrap()).await.unwrap(), "ok");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn answers_that_nobody_reads_do_not_hold_up_the_others_on_their_connection() {
    // Large frames, and small ones, which cost more than their bytes.
    for (size, piece) in [(1024 * 1024, 16 * 1024), (32 * 1024, 16)] {
        let (subject, connections) = counted(
            |_| {},
            move |_, peer| async move {
                let mut connection = h2::server::handshake(peer.into_stream()).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    let mut stream = respond.send_response(Response::new(()), false).unwrap();
                    for _ in 0..size / piece {
                        stream.send_data(Bytes::from(vec![7; piece]), false).unwrap();
                    }
                    stream.send_data(Bytes::new(), true).unwrap();
                }
            },
        )
        .await;
        let get = || subject.send(unguarded(Method::GET, RequestBody::whole(Bytes::new())));
        let mut unread = Vec::new();
        for _ in 0..20 {
            unread.push(get().await.unwrap());
        }
        assert_eq!(whole(get().await.unwrap()).await.unwrap().len(), size);
        for late in unread {
            assert_eq!(whole(late).await.unwrap().len(), size);
        }
        assert_eq!(connections.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_connection_takes_no_more_streams_than_its_peer_allows() {
    let (subject, connections) = counted(|_| {}, |_, peer| answer_together(peer, 2, &[(MAX_STREAMS, 2)])).await;
    let answers = futures_util::future::join_all((0..6).map(|_| subject.post())).await;
    for answer in answers {
        assert_eq!(whole(answer.unwrap()).await.unwrap(), "ok");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 3);
}

/// Its one connection takes one stream, and its first request is answered when told.
async fn with_one_stream() -> (Subject, mpsc::UnboundedReceiver<u32>, mpsc::UnboundedSender<()>) {
    let (answer, answering) = mpsc::unbounded_channel::<()>();
    let answering = Arc::new(tokio::sync::Mutex::new(answering));
    let (told, requests) = mpsc::unbounded_channel();
    let (subject, _) = counted(
        |options| options.max_connections = 1,
        move |number, peer| {
            let (answering, told) = (Arc::clone(&answering), told.clone());
            async move {
                assert_eq!(number, 0, "one connection is all there may be");
                let mut frames = Frames::begin(peer, &[(MAX_STREAMS, 1)]).await;
                while let Some((stream, _)) = frames.try_request().await {
                    told.send(stream).unwrap();
                    answering.lock().await.recv().await;
                    frames.ok(stream).await;
                }
            }
        },
    )
    .await;
    (subject, requests, answer)
}

#[tokio::test]
async fn where_no_more_connections_may_be_opened_a_request_waits_for_a_stream() {
    let (subject, mut requests, answer) = with_one_stream().await;
    let mut first = Box::pin(subject.post());
    tokio::select! {
        _ = &mut first => panic!("it isn't answered yet"),
        stream = requests.recv() => assert_eq!(stream, Some(1)),
    }
    let mut second = Box::pin(subject.post());
    assert!(futures_util::poll!(&mut second).is_pending());
    for _ in 0..2 {
        answer.send(()).unwrap();
    }
    assert_eq!(whole(first.await.unwrap()).await.unwrap(), "ok");
    assert_eq!(whole(second.await.unwrap()).await.unwrap(), "ok");
}

#[tokio::test]
async fn a_request_does_not_wait_for_a_stream_longer_than_for_a_connection() {
    let (subject, mut requests, _answer) = with_one_stream().await;
    let mut first = Box::pin(subject.post());
    tokio::select! {
        _ = &mut first => panic!("it isn't answered"),
        stream = requests.recv() => assert_eq!(stream, Some(1)),
    }
    assert!(is_not_sent(subject.post().await));
}

/// The check comes when the stream is there, not before the wait for it (E10).
#[tokio::test]
async fn a_request_whose_claim_lapses_while_it_waits_for_a_stream_is_not_sent() {
    let (subject, mut requests, answer) = with_one_stream().await;
    let mut first = Box::pin(subject.post());
    tokio::select! {
        _ = &mut first => panic!("it isn't answered yet"),
        stream = requests.recv() => assert_eq!(stream, Some(1)),
    }
    let late = running().await;
    let mut second = Box::pin(subject.send(keyed(late.attempt.clone())));
    assert!(futures_util::poll!(&mut second).is_pending());
    late.clock.advance(Duration::from_mins(1));
    late.store.purge(late.attempt.id).await.unwrap();
    answer.send(()).unwrap();
    assert_eq!(whole(first.await.unwrap()).await.unwrap(), "ok");
    assert!(is_not_sent(second.await));
    assert!(requests.try_recv().is_err(), "nothing was sent");
}

#[tokio::test]
async fn a_peer_that_takes_no_streams_gets_nothing() {
    let (subject, _) = counted(
        |_| {},
        |_, peer| async move {
            let mut frames = Frames::begin(peer, &[(MAX_STREAMS, 0)]).await;
            assert!(frames.try_request().await.is_none(), "it takes no streams");
        },
    )
    .await;
    assert!(is_not_sent(subject.post().await));
}
