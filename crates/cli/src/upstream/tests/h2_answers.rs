//! HTTP/2: answers, whole or cut.

use h2::Reason;

use super::*;
use crate::scripted::frames::{DATA, RST_STREAM};

/// An upstream that answers the first request of each connection so.
async fn answering<F, T>(answer: F) -> Subject
where
    F: Fn(Frames, u32) -> T + Send + Sync + 'static,
    T: Future<Output = Frames> + Send + 'static,
{
    let answer = Arc::new(answer);
    let address = upstream(move |_, peer| {
        let answer = Arc::clone(&answer);
        async move {
            let mut frames = Frames::begin(peer, &[]).await;
            let Some((stream, _)) = frames.try_request().await else { return };
            answer(frames, stream).await.rest().await;
        }
    })
    .await;
    Subject::two(address)
}

/// The body of an answer, or what is wrong with it, wherever that shows.
async fn body_of(subject: &Subject) -> Result<Bytes, UpstreamError> {
    whole(subject.post().await?).await
}

const CREATED: (&str, &str) = (":status", "201");

#[tokio::test]
async fn only_the_end_of_the_stream_makes_a_body_whole() {
    for announced in [None, Some("4")] {
        for code in [0, 2, 5, 7, 8] {
            let subject = answering(move |mut frames, stream| async move {
                let length = announced.map(|length| ("content-length", length));
                let fields: Vec<_> = [CREATED].into_iter().chain(length).collect();
                frames.head(stream, &fields, false).await;
                frames.data(stream, b"half", false).await;
                frames.reset(stream, Reason::from(code)).await;
                frames
            })
            .await;
            assert!(is_broken(body_of(&subject).await), "{announced:?}, code {code}");
        }
        for go_away in [false, true] {
            let address = upstream(move |_, peer| async move {
                let mut frames = Frames::begin(peer, &[]).await;
                let (stream, _) = frames.request().await;
                frames.head(stream, &[CREATED], false).await;
                frames.data(stream, b"half", false).await;
                if go_away {
                    frames.go_away(stream, Reason::NO_ERROR).await;
                }
            })
            .await;
            assert!(is_broken(body_of(&Subject::two(address)).await), "{announced:?}, go away {go_away}");
        }
    }
}

#[tokio::test]
async fn a_body_of_another_length_than_announced_is_broken() {
    for (announced, sent) in [("9", &b"half"[..]), ("3", b"half"), ("1", b"")] {
        let subject = answering(move |mut frames, stream| async move {
            frames.head(stream, &[CREATED, ("content-length", announced)], false).await;
            frames.data(stream, sent, true).await;
            frames
        })
        .await;
        assert!(is_broken(body_of(&subject).await), "{announced}");
    }
    let subject = answering(|mut frames, stream| async move {
        frames.head(stream, &[CREATED, ("content-length", "4")], true).await;
        frames
    })
    .await;
    assert!(is_broken(body_of(&subject).await), "a head that ends the stream and announces four bytes");
}

#[tokio::test]
async fn a_reset_after_the_end_of_the_answer_takes_nothing_from_it() {
    for code in [Reason::NO_ERROR, Reason::CANCEL] {
        let address = upstream(move |_, peer| async move {
            let mut frames = Frames::begin(peer, &[]).await;
            // Answers by the head alone, and doesn't want the rest.
            let stream = frames.next().await.unwrap().stream;
            frames.ok(stream).await;
            frames.reset(stream, code).await;
            frames.rest().await;
        })
        .await;
        let (unfinished, body) = channel_body();
        let response = Subject::two(address).send(unguarded(Method::POST, body)).await.unwrap();
        assert_eq!(whole(response).await.unwrap(), "ok", "{code:?}");
        within(unfinished.closed()).await;
    }
}

#[tokio::test]
async fn an_answer_before_the_end_of_the_request_leaves_the_request_on_its_way() {
    let (seen, mut bodies) = tokio::sync::mpsc::unbounded_channel();
    let address = upstream(move |_, peer| {
        let seen = seen.clone();
        async move {
            let mut frames = Frames::begin(peer, &[]).await;
            let stream = frames.next().await.unwrap().stream;
            frames.ok(stream).await;
            let mut body = Vec::new();
            loop {
                let frame = frames.next().await.unwrap();
                assert_eq!(frame.kind, DATA);
                body.extend_from_slice(&frame.payload);
                if frame.ends() {
                    break;
                }
            }
            seen.send(body).unwrap();
            frames.rest().await;
        }
    })
    .await;
    let subject = Subject::two(address);
    let (chunks, body) = channel_body();
    let response = subject.send(unguarded(Method::POST, body)).await.unwrap();
    assert_eq!(whole(response).await.unwrap(), "ok");
    chunks.send(Ok(Frame::data(Bytes::from_static(b"the rest")))).await.unwrap();
    drop(chunks);
    assert_eq!(within(bodies.recv()).await.unwrap(), b"the rest");
}

#[tokio::test]
async fn interim_answers_are_skipped() {
    let subject = answering(|mut frames, stream| async move {
        frames.head(stream, &[(":status", "100")], false).await;
        frames.head(stream, &[(":status", "103"), ("link", "</a>")], false).await;
        frames.ok(stream).await;
        frames
    })
    .await;
    let response = subject.post().await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(!response.headers().contains_key("link"));
    assert_eq!(whole(response).await.unwrap(), "ok");
}

#[tokio::test]
async fn an_interim_answer_and_then_nothing_is_broken() {
    let address = upstream(|_, peer| async move {
        let mut frames = Frames::begin(peer, &[]).await;
        let (stream, _) = frames.request().await;
        frames.head(stream, &[(":status", "103")], false).await;
    })
    .await;
    assert!(is_broken(Subject::two(address).post().await));
}

#[tokio::test]
async fn answers_without_a_body_are_whole_with_their_head() {
    for (status, length) in [("204", None), ("304", Some("9")), ("200", Some("0")), ("201", None)] {
        let subject = answering(move |mut frames, stream| async move {
            let length = length.map(|length| ("content-length", length));
            let fields: Vec<_> = [(":status", status)].into_iter().chain(length).collect();
            frames.head(stream, &fields, true).await;
            frames
        })
        .await;
        let response = subject.post().await.unwrap();
        assert_eq!(response.status().as_str(), status);
        assert!(http_body::Body::is_end_stream(response.body()), "{status}");
        assert_eq!(whole(response).await.unwrap(), "");
    }
}

#[tokio::test]
async fn an_answer_to_head_announces_what_it_does_not_have() {
    let subject = answering(|mut frames, stream| async move {
        frames.head(stream, &[(":status", "200"), ("content-length", "9")], true).await;
        frames
    })
    .await;
    let response = subject.send(unguarded(Method::HEAD, RequestBody::whole(Bytes::new()))).await.unwrap();
    assert_eq!(response.headers()["content-length"], "9");
    assert_eq!(whole(response).await.unwrap(), "");
}

#[tokio::test]
async fn trailers_are_the_last_frame() {
    let subject = answering(|mut frames, stream| async move {
        frames.head(stream, &[(":status", "200"), ("trailer", "x-sum")], false).await;
        frames.data(stream, b"ok", false).await;
        frames.head(stream, &[("x-sum", "9"), ("grpc-status", "0")], true).await;
        frames
    })
    .await;
    let collected = within(subject.post().await.unwrap().into_body().collect()).await.unwrap();
    assert_eq!(
        (&collected.trailers().unwrap()["x-sum"], &collected.trailers().unwrap()["grpc-status"]),
        (&"9".parse().unwrap(), &"0".parse().unwrap())
    );
    assert_eq!(collected.to_bytes(), "ok");
}

#[tokio::test]
async fn trailers_without_a_body_arrive() {
    let subject = answering(|mut frames, stream| async move {
        frames.head(stream, &[(":status", "200")], false).await;
        frames.head(stream, &[("grpc-status", "7")], true).await;
        frames
    })
    .await;
    let collected = within(subject.post().await.unwrap().into_body().collect()).await.unwrap();
    assert_eq!(collected.trailers().unwrap()["grpc-status"], "7");
    assert_eq!(collected.to_bytes(), "");
}

#[tokio::test]
async fn the_way_of_an_answer_is_told_and_its_hop_ends() {
    let subject = answering(|mut frames, stream| async move {
        let fields = [
            (":status", "200"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("via", "1.1 cache"),
            ("proxy-authenticate", "Basic"),
        ];
        frames.head(stream, &fields, true).await;
        frames
    })
    .await;
    let response = subject.post().await.unwrap();
    assert_eq!(response.version(), http::Version::HTTP_11);
    let mut names: Vec<&str> = response.headers().keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["set-cookie", "via"]);
    assert_eq!(response.headers()["via"], "1.1 cache, 2.0 oncekey");
    assert_eq!(response.headers().get_all("set-cookie").iter().collect::<Vec<_>>(), ["a=1", "b=2"]);
}

#[tokio::test]
async fn a_head_may_be_large_but_not_without_a_bound() {
    for (lines, passes) in [(200, true), (800, false)] {
        let subject = answering(move |mut frames, stream| async move {
            let value = "v".repeat(200);
            let names: Vec<_> = (0..lines).map(|number| format!("x-{number}")).collect();
            let fields: Vec<_> =
                [CREATED].into_iter().chain(names.iter().map(|name| (name.as_str(), value.as_str()))).collect();
            frames.head(stream, &fields, true).await;
            frames
        })
        .await;
        let answer = subject.post().await;
        if passes {
            assert_eq!(answer.unwrap().headers().len(), lines + 1, "and Via");
        } else {
            assert!(is_broken(answer), "{lines} lines");
        }
    }
}

#[tokio::test]
async fn an_answer_larger_than_the_windows_arrives_whole() {
    const SIZE: usize = 3 * 1024 * 1024;
    // A real server, since this one has to mind the windows.
    let address = upstream(|_, peer| async move {
        let mut connection = h2::server::handshake(peer.into_stream()).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let mut stream = respond.send_response(Response::new(()), false).unwrap();
            stream.send_data(Bytes::from(vec![7; SIZE]), true).unwrap();
        }
    })
    .await;
    let body = whole(Subject::two(address).post().await.unwrap()).await.unwrap();
    assert_eq!(body.len(), SIZE);
}

#[tokio::test]
async fn an_answer_dropped_before_its_end_resets_its_stream() {
    let (seen, mut codes) = tokio::sync::mpsc::unbounded_channel();
    let subject = answering(move |mut frames, stream| {
        let seen = seen.clone();
        async move {
            frames.head(stream, &[CREATED], false).await;
            let frame = frames.next().await.unwrap();
            assert_eq!((frame.kind, frame.stream), (RST_STREAM, stream));
            seen.send(frame.code()).unwrap();
            frames
        }
    })
    .await;
    drop(subject.post().await.unwrap());
    assert_eq!(within(codes.recv()).await.unwrap(), u32::from(Reason::CANCEL));
}
