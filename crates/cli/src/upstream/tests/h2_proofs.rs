//! HTTP/2: which frames prove that nothing was executed (E6), and which leave it open (E7).

use h2::Reason;
use oncekey_engine::NotExecuted;

use super::*;
use crate::scripted::frames::{GOAWAY, HEADERS};

/// Takes one request whole, does `then`, and reads on. Each further request fails the test.
async fn after_request<F, T>(then: F) -> Subject
where
    F: Fn(Frames, u32) -> T + Send + Sync + 'static,
    T: Future<Output = Frames> + Send + 'static,
{
    let then = Arc::new(then);
    let address = upstream(move |number, peer| {
        let then = Arc::clone(&then);
        async move {
            assert_eq!(number, 0, "nothing is sent a second time");
            let mut frames = Frames::begin(peer, &[]).await;
            let (stream, body) = frames.request().await;
            assert_eq!(body, b"an order");
            let mut frames = then(frames, stream).await;
            assert!(frames.try_request().await.is_none(), "nothing is sent a second time");
        }
    })
    .await;
    Subject::two(address)
}

#[tokio::test]
async fn a_refused_stream_is_proof() {
    let subject = after_request(|mut frames, stream| async move {
        frames.reset(stream, Reason::REFUSED_STREAM).await;
        frames
    })
    .await;
    let error = subject.post().await.err().unwrap();
    assert!(NotExecuted::find(&error).is_some(), "{error:?}");
}

#[tokio::test]
async fn a_reset_with_any_other_code_is_broken() {
    for code in 0..=13 {
        let code = Reason::from(code);
        if code == Reason::REFUSED_STREAM {
            continue;
        }
        let subject = after_request(move |mut frames, stream| async move {
            frames.reset(stream, code).await;
            frames
        })
        .await;
        assert!(is_broken(subject.post().await), "{code:?}");
    }
}

#[tokio::test]
async fn a_refusal_after_an_interim_answer_is_broken() {
    for status in ["100", "103"] {
        let subject = after_request(move |mut frames, stream| async move {
            frames.head(stream, &[(":status", status)], false).await;
            frames.reset(stream, Reason::REFUSED_STREAM).await;
            frames
        })
        .await;
        assert!(is_broken(subject.post().await), "{status}");
    }
}

#[tokio::test]
async fn a_refusal_after_the_head_of_an_answer_is_broken() {
    let (taken, head) = tokio::sync::mpsc::unbounded_channel::<()>();
    let head = Arc::new(tokio::sync::Mutex::new(head));
    for go_away in [false, true] {
        let head = Arc::clone(&head);
        let subject = after_request(move |mut frames, stream| {
            let head = Arc::clone(&head);
            async move {
                frames.head(stream, &[(":status", "201")], false).await;
                within(head.lock().await.recv()).await;
                if go_away {
                    frames.go_away(0, Reason::NO_ERROR).await;
                } else {
                    frames.reset(stream, Reason::REFUSED_STREAM).await;
                }
                frames
            }
        })
        .await;
        let response = subject.post().await.unwrap();
        taken.send(()).unwrap();
        assert!(is_broken(whole(response).await), "go away: {go_away}");
    }
}

#[tokio::test]
async fn a_stream_past_the_last_one_of_a_goaway_is_proof_whatever_its_code() {
    for code in [Reason::NO_ERROR, Reason::ENHANCE_YOUR_CALM, Reason::INTERNAL_ERROR] {
        let subject = after_request(move |mut frames, _| async move {
            frames.go_away(0, code).await;
            frames
        })
        .await;
        assert!(is_not_sent(subject.post().await), "{code:?}");
    }
}

/// As a server does that ends in two steps: first that it ends, then what it took.
#[tokio::test]
async fn the_last_goaway_counts() {
    let subject = after_request(|mut frames, _| async move {
        frames.go_away(u32::MAX >> 1, Reason::NO_ERROR).await;
        frames.go_away(0, Reason::NO_ERROR).await;
        frames
    })
    .await;
    assert!(is_not_sent(subject.post().await));
}

#[tokio::test]
async fn a_goaway_that_covers_the_stream_and_then_the_end_is_broken() {
    for (last, code) in [(1, Reason::NO_ERROR), (1, Reason::INTERNAL_ERROR), (u32::MAX >> 1, Reason::NO_ERROR)] {
        for reset in [false, true] {
            let address = upstream(move |number, peer| async move {
                assert_eq!(number, 0, "nothing is sent a second time");
                let mut frames = Frames::begin(peer, &[]).await;
                frames.request().await;
                frames.go_away(last, code).await;
                if reset {
                    frames.cut();
                }
            })
            .await;
            assert!(is_broken(Subject::two(address).post().await), "{last} {code:?} {reset}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_a_goaway_covers_is_still_answered() {
    let subject = after_request(|mut frames, stream| async move {
        frames.go_away(stream, Reason::NO_ERROR).await;
        frames.ok(stream).await;
        frames
    })
    .await;
    assert_eq!(whole(subject.post().await.unwrap()).await.unwrap(), "ok");
}

/// Two on one connection: one of them was taken, the other wasn't.
#[tokio::test]
async fn a_goaway_tells_the_streams_of_a_connection_apart() {
    let address = upstream(|number, peer| async move {
        assert_eq!(number, 0, "nothing is sent a second time");
        let mut frames = Frames::begin(peer, &[]).await;
        let mut heads = 0;
        while heads < 2 {
            let frame = frames.next().await.unwrap();
            heads += usize::from(frame.kind == HEADERS);
        }
        frames.go_away(1, Reason::NO_ERROR).await;
    })
    .await;
    let subject = Subject::two(address);
    let (first, second) = tokio::join!(subject.post(), subject.post());
    let proven = [is_not_sent(first), is_not_sent(second)];
    assert_eq!(proven.iter().filter(|proven| **proven).count(), 1, "{proven:?}");
}

#[tokio::test]
async fn the_end_of_a_connection_without_a_word_is_broken() {
    for reset in [false, true] {
        let address = upstream(move |number, peer| async move {
            assert_eq!(number, 0, "nothing is sent a second time");
            let mut frames = Frames::begin(peer, &[]).await;
            frames.request().await;
            if reset {
                frames.cut();
            }
        })
        .await;
        assert!(is_broken(Subject::two(address).post().await), "reset: {reset}");
    }
}

/// What the client itself finds wrong says nothing about what the upstream has done, whatever code it then sends.
#[tokio::test]
async fn frames_that_break_the_rules_are_broken() {
    for fields in [
        &[(":status", "200"), ("Upper", "case")][..],
        &[("content-type", "text/plain")],
        &[(":status", "101")],
        &[(":status", "200"), ("content-length", "2"), ("content-length", "3")],
    ] {
        let subject = after_request(move |mut frames, stream| async move {
            frames.head(stream, fields, true).await;
            frames
        })
        .await;
        assert!(is_broken(subject.post().await), "{fields:?}");
    }
    let subject = after_request(|mut frames, stream| async move {
        frames.data(stream, b"no head yet", true).await;
        frames
    })
    .await;
    assert!(is_broken(subject.post().await));
    let subject = after_request(|mut frames, stream| async move {
        frames.send(HEADERS, 4, stream + 20, &[0x88]).await;
        frames
    })
    .await;
    assert!(is_broken(subject.post().await), "a head on a stream that nobody opened");
}

/// A PING is answered before anything of a request is sent, so that these are proof too.
#[tokio::test]
async fn an_upstream_that_does_not_speak_http_2_gets_nothing_of_a_request() {
    for words in [
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Length: 0\r\n\r\n",
        "220 mail.example ESMTP\r\n",
        "",
    ] {
        let (seen, mut read) = tokio::sync::mpsc::unbounded_channel();
        let address = upstream(move |_, mut peer| {
            let seen = seen.clone();
            async move {
                peer.send(words).await;
                if words.is_empty() {
                    peer.end().await;
                }
                let _ = seen.send(peer.rest().await.unwrap_or_default());
            }
        })
        .await;
        assert!(is_not_sent(Subject::two(address).post().await), "{words:?}");
        let read = within(read.recv()).await.unwrap();
        assert!(!read.windows(8).any(|eight| eight == b"an order"), "{words:?}");
    }
}

#[tokio::test]
async fn an_upstream_that_says_nothing_gets_nothing_of_a_request() {
    let address = upstream(|_, mut peer| async move { drop(peer.rest().await) }).await;
    assert!(is_not_sent(Subject::two(address).post().await));
}

#[tokio::test]
async fn an_upstream_that_goes_away_at_once_gets_nothing_of_a_request() {
    let address = upstream(|_, peer| async move {
        let mut frames = Frames::begin(peer, &[]).await;
        frames.go_away(0, Reason::NO_ERROR).await;
        while let Some(frame) = frames.next().await {
            assert_eq!(frame.kind, GOAWAY, "nothing is sent");
        }
    })
    .await;
    assert!(is_not_sent(Subject::two(address).post().await));
}
