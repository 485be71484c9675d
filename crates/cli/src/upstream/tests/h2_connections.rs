//! HTTP/2: which connection carries which stream, and that nothing is sent twice.

use std::sync::atomic::{AtomicUsize, Ordering};

use h2::Reason;
use tokio::sync::mpsc;

use super::*;
use crate::scripted::frames::{HEADERS, RST_STREAM};
use crate::upstream::secure::Offer;

/// An upstream that counts its connections.
pub(super) async fn counted<T>(
    change: impl FnOnce(&mut UpstreamOptions),
    serve: impl Fn(usize, Peer) -> T + Send + 'static,
) -> (Subject, Arc<AtomicUsize>)
where
    T: Future<Output = ()> + Send + 'static,
{
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let address = upstream(move |number, peer| {
        count.fetch_add(1, Ordering::Relaxed);
        serve(number, peer)
    })
    .await;
    let subject = Subject::with(&address.to_string(), |options| {
        options.http = UpstreamHttp::Two;
        change(options);
    });
    (subject, connections)
}

/// Answers each request.
async fn answer_all(peer: Peer) {
    let mut frames = Frames::begin(peer, &[]).await;
    while let Some((stream, _)) = frames.try_request().await {
        frames.ok(stream).await;
    }
}

#[tokio::test]
async fn keyed_requests_share_no_connection_with_others() {
    let (subject, connections) = counted(|_| {}, |_, peer| answer_all(peer)).await;
    for _ in 0..2 {
        whole(subject.post().await.unwrap()).await.unwrap();
        let other = subject.send(unguarded(Method::POST, RequestBody::whole(Bytes::new()))).await;
        whole(other.unwrap()).await.unwrap();
    }
    assert_eq!(connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_connection_that_goes_away_takes_no_new_streams_and_finishes_its_own() {
    let (go_on, held) = mpsc::unbounded_channel::<()>();
    let (told, mut gone) = mpsc::unbounded_channel();
    let held = Arc::new(tokio::sync::Mutex::new(held));
    let (subject, connections) = counted(
        |_| {},
        move |number, peer| {
            let (held, told) = (Arc::clone(&held), told.clone());
            async move {
                if number > 0 {
                    return answer_all(peer).await;
                }
                let mut frames = Frames::begin(peer, &[]).await;
                let (stream, _) = frames.request().await;
                frames.go_away(stream, Reason::NO_ERROR).await;
                told.send(()).unwrap();
                held.lock().await.recv().await;
                frames.ok(stream).await;
                assert!(frames.try_request().await.is_none(), "it takes no more streams");
            }
        },
    )
    .await;
    let mut first = Box::pin(subject.post());
    tokio::select! {
        _ = &mut first => panic!("it isn't answered yet"),
        told = gone.recv() => told.unwrap(),
    }
    // The frame was sent; that it was read is what this waits for.
    within(async {
        while !matches!(subject.upstream.0.lines.keyed.look(), crate::upstream::http2::Look::Room) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(whole(subject.post().await.unwrap()).await.unwrap(), "ok");
    go_on.send(()).unwrap();
    assert_eq!(whole(first.await.unwrap()).await.unwrap(), "ok");
    assert_eq!(connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_connection_idle_for_too_long_is_not_used_again() {
    let (subject, connections) = counted(|_| {}, |_, peer| answer_all(peer)).await;
    for (idle, opened) in [(0, 1), (999, 1), (1000, 2), (5000, 3)] {
        subject.clock.advance(Duration::from_millis(idle));
        whole(subject.post().await.unwrap()).await.unwrap();
        assert_eq!(connections.load(Ordering::Relaxed), opened, "after {idle} ms");
    }
}

/// Its streams keep an upstream from closing it, but not from being gone; and asking it by a PING would be too much for some.
#[tokio::test]
async fn a_busy_connection_that_was_silent_takes_no_stream_until_it_is_heard() {
    let (go_on, held) = mpsc::unbounded_channel::<()>();
    let (told, mut begun) = mpsc::unbounded_channel();
    let held = Arc::new(tokio::sync::Mutex::new(held));
    let (subject, connections) = counted(
        |_| {},
        move |number, peer| {
            let (held, told) = (Arc::clone(&held), told.clone());
            async move {
                if number > 0 {
                    return answer_all(peer).await;
                }
                let mut frames = Frames::begin(peer, &[]).await;
                let (slow, _) = frames.request().await;
                told.send(()).unwrap();
                let (quick, _) = frames.request().await;
                frames.ok(quick).await;
                held.lock().await.recv().await;
                frames.head(slow, &[(":status", "200")], false).await;
                let (quick, _) = frames.request().await;
                assert_eq!(frames.pings, 1, "at its beginning");
                frames.ok(quick).await;
                frames.rest().await;
            }
        },
    )
    .await;
    let mut slow = Box::pin(subject.post());
    tokio::select! {
        _ = &mut slow => panic!("it isn't answered yet"),
        told = begun.recv() => told.unwrap(),
    }
    for (silent, opened) in [(999, 1), (1000, 2)] {
        subject.clock.advance(Duration::from_millis(silent));
        whole(subject.post().await.unwrap()).await.unwrap();
        assert_eq!(connections.load(Ordering::Relaxed), opened, "after {silent} ms");
    }
    // The second one is too old by now, and the first is heard.
    subject.clock.advance(Duration::from_secs(1));
    go_on.send(()).unwrap();
    let unfinished = slow.await.unwrap();
    whole(subject.post().await.unwrap()).await.unwrap();
    assert_eq!(connections.load(Ordering::Relaxed), 2);
    drop(unfinished);
}

#[tokio::test]
async fn a_dead_peer_is_found_by_its_silence() {
    let (subject, _) = counted(
        |options| options.keep_alive = Duration::from_millis(100),
        |_, peer| async move {
            let mut frames = Frames::begin(peer, &[]).await;
            frames.request().await;
            frames.answers_pings = false;
            frames.rest().await;
        },
    )
    .await;
    assert!(is_broken(subject.post().await));
}

/// The control to the one above: a slow peer isn't a dead one.
#[tokio::test]
async fn a_peer_that_answers_pings_may_be_slow() {
    let (subject, _) = counted(
        |options| options.keep_alive = Duration::from_millis(20),
        |_, peer| async move {
            let mut frames = Frames::begin(peer, &[]).await;
            let (stream, _) = frames.request().await;
            let before = frames.pings;
            // Only a PING can make this reading go on.
            while frames.pings < before + 5 {
                frames.any().await;
            }
            frames.ok(stream).await;
            frames.rest().await;
        },
    )
    .await;
    assert_eq!(whole(subject.post().await.unwrap()).await.unwrap(), "ok");
}

#[tokio::test]
async fn an_exchange_given_up_resets_its_stream_and_leaves_the_others() {
    let (seen, mut told) = mpsc::unbounded_channel();
    let (subject, connections) = counted(
        |_| {},
        move |_, peer| {
            let seen = seen.clone();
            async move {
                let mut frames = Frames::begin(peer, &[]).await;
                let (given_up, _) = frames.request().await;
                seen.send("read").unwrap();
                let frame = frames.next().await.unwrap();
                assert_eq!((frame.kind, frame.stream), (RST_STREAM, given_up));
                seen.send("reset").unwrap();
                while let Some((stream, _)) = frames.try_request().await {
                    frames.ok(stream).await;
                }
            }
        },
    )
    .await;
    let mut exchange = Box::pin(subject.post());
    tokio::select! {
        _ = &mut exchange => panic!("there is no answer"),
        read = told.recv() => assert_eq!(read, Some("read")),
    }
    drop(exchange);
    assert_eq!(within(told.recv()).await, Some("reset"));
    whole(subject.post().await.unwrap()).await.unwrap();
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

/// With the body still on its way, too.
#[tokio::test]
async fn an_upload_given_up_resets_its_stream() {
    let (seen, mut told) = mpsc::unbounded_channel();
    let (subject, _) = counted(
        |_| {},
        move |_, peer| {
            let seen = seen.clone();
            async move {
                let mut frames = Frames::begin(peer, &[]).await;
                assert_eq!(frames.next().await.unwrap().kind, HEADERS);
                seen.send("read").unwrap();
                assert_eq!(frames.next().await.unwrap().kind, RST_STREAM);
                seen.send("reset").unwrap();
            }
        },
    )
    .await;
    let (_unfinished, body) = channel_body();
    let mut exchange = Box::pin(subject.send(unguarded(Method::POST, body)));
    tokio::select! {
        _ = &mut exchange => panic!("there is no answer"),
        read = told.recv() => assert_eq!(read, Some("read")),
    }
    drop(exchange);
    assert_eq!(within(told.recv()).await, Some("reset"));
}

#[tokio::test]
async fn an_attempt_that_may_not_begin_sends_nothing_and_keeps_the_connection() {
    let (subject, connections) = counted(|_| {}, |_, peer| answer_all(peer)).await;
    whole(subject.post().await.unwrap()).await.unwrap();
    let late = running().await;
    late.clock.advance(Duration::from_mins(1));
    late.store.purge(late.attempt.id).await.unwrap();
    assert!(is_not_sent(subject.send(keyed(late.attempt)).await));
    whole(subject.post().await.unwrap()).await.unwrap();
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_request_whose_connection_went_away_since_it_was_chosen_goes_on_a_new_one() {
    let (close, closing) = mpsc::unbounded_channel::<()>();
    let closing = Arc::new(tokio::sync::Mutex::new(closing));
    let (subject, connections) = counted(
        |_| {},
        move |number, peer| {
            let closing = Arc::clone(&closing);
            async move {
                if number > 0 {
                    return answer_all(peer).await;
                }
                let mut frames = Frames::begin(peer, &[]).await;
                let (stream, _) = frames.request().await;
                frames.ok(stream).await;
                closing.lock().await.recv().await;
                frames.go_away(stream, Reason::NO_ERROR).await;
                assert!(frames.try_request().await.is_none(), "it takes no more streams");
            }
        },
    )
    .await;
    whole(subject.post().await.unwrap()).await.unwrap();
    let shared = &subject.upstream.0;
    let attempt = running().await.attempt;
    let chosen = within(shared.lines.line(Offer::Two, Some(&attempt))).await.unwrap();
    close.send(()).unwrap();
    within(async {
        while !matches!(shared.lines.keyed.look(), crate::upstream::http2::Look::Room) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let sent = within(shared.send(Some(chosen), keyed(attempt.clone()), Some(&attempt), Offer::Two)).await;
    assert!(sent.is_ok());
    assert_eq!(connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn an_upgrade_is_not_sent_in_http_2() {
    let (subject, connections) = counted(|_| {}, |_, peer| answer_all(peer)).await;
    let mut request = unguarded(Method::GET, RequestBody::whole(Bytes::new()));
    request.headers_mut().insert("connection", "upgrade".parse().unwrap());
    request.headers_mut().insert("upgrade", "websocket".parse().unwrap());
    let mut raw = http::Request::new(());
    // What the front puts there for each connection that can change.
    let upgrade = hyper::upgrade::on(&mut raw);
    request.extensions_mut().insert(upgrade);
    assert!(is_not_sent(subject.send(request).await));
    assert_eq!(connections.load(Ordering::Relaxed), 0);
}
