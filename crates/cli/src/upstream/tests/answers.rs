//! Answers: whole or cut, and what of their heads passes.

use super::*;

/// An upstream that gives this answer and closes.
async fn closing_after(answer: &'static str) -> Subject {
    let address = upstream(move |_, mut peer| async move {
        peer.message().await;
        peer.send(answer).await;
        peer.end().await;
        let _ = peer.rest().await;
    })
    .await;
    Subject::at(address)
}

async fn body_of(answer: &'static str) -> Result<Bytes, UpstreamError> {
    whole(closing_after(answer).await.post().await.expect("a head")).await
}

#[tokio::test]
async fn a_body_cut_short_is_an_error_whatever_its_framing() {
    for answer in [
        "HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\nhalf",
        "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
        "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
    ] {
        assert!(is_broken(body_of(answer).await), "{answer}");
    }
}

#[tokio::test]
async fn a_body_that_ends_with_its_connection_is_whole() {
    assert_eq!(body_of("HTTP/1.1 201 Created\r\n\r\n{\"order\":1}").await.unwrap(), "{\"order\":1}");
    assert_eq!(body_of("HTTP/1.0 201 Created\r\n\r\n{\"order\":1}").await.unwrap(), "{\"order\":1}");
}

#[tokio::test]
async fn a_body_that_ends_with_a_reset_is_not_whole() {
    let (taken, half) = tokio::sync::mpsc::unbounded_channel::<()>();
    let half = Arc::new(tokio::sync::Mutex::new(half));
    let address = upstream(move |_, mut peer| {
        let half = Arc::clone(&half);
        async move {
            peer.message().await;
            peer.send("HTTP/1.1 201 Created\r\n\r\nhalf").await;
            // Reset only once the half was taken, else it takes the head along.
            within(half.lock().await.recv()).await;
            peer.reset();
        }
    })
    .await;
    let mut body = Subject::at(address).post().await.unwrap().into_body();
    assert_eq!(within(body.frame()).await.unwrap().unwrap().into_data().unwrap(), "half");
    taken.send(()).unwrap();
    assert!(is_broken(within(body.frame()).await.unwrap()));
}

#[tokio::test]
async fn a_head_may_be_large_but_not_without_a_bound() {
    for (lines, size, passes) in [(250, 200, true), (300, 20, false), (30, 2000, true), (80, 2000, false)] {
        let fields: Vec<_> = (0..lines).map(|number| format!("X-{number}: {}\r\n", "v".repeat(size))).collect();
        let answer: &'static str = format!("HTTP/1.1 200 OK\r\n{}\r\n", fields.concat()).leak();
        let answer = closing_after(answer).await.post().await;
        assert_eq!(answer.is_ok(), passes, "{lines} lines of {size} bytes: {:?}", answer.err());
    }
}

#[tokio::test]
async fn interim_answers_are_skipped() {
    let answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok";
    let response = closing_after(answer).await.post().await.unwrap();
    assert_eq!(response.status(), 201);
    assert!(!response.headers().contains_key("link"));
    assert_eq!(whole(response).await.unwrap(), "ok");
}

#[tokio::test]
async fn framings_that_can_be_read_in_two_ways_are_broken() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk",
        "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    ] {
        assert!(is_broken(closing_after(answer).await.post().await), "{answer}");
    }
}

#[tokio::test]
async fn a_length_beside_chunks_is_dropped_and_the_connection_with_it() {
    let address = upstream(|number, mut peer| async move {
        peer.message().await;
        assert!(number < 2);
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
            .await;
        assert!(peer.rest().await.unwrap().is_empty(), "nothing more is sent on it");
    })
    .await;
    let subject = Subject::at(address);
    for _ in 0..2 {
        let response = subject.post().await.unwrap();
        assert!(!response.headers().contains_key("content-length"));
        assert_eq!(whole(response).await.unwrap(), "ok");
    }
}

#[tokio::test]
async fn equal_lengths_become_one() {
    for lines in ["Content-Length: 2\r\nContent-Length: 2", "Content-Length: 2, 2"] {
        let answer: &'static str = format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\nok").leak();
        let response = closing_after(answer).await.post().await.unwrap();
        assert_eq!(response.headers().get_all("content-length").iter().collect::<Vec<_>>(), ["2"]);
        assert_eq!(whole(response).await.unwrap(), "ok");
    }
}

#[tokio::test]
async fn an_older_upstream_is_answered_for_in_1_1_and_its_connection_is_not_kept() {
    let address = upstream(|_, mut peer| async move {
        peer.message().await;
        peer.send("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok").await;
        assert!(peer.rest().await.unwrap().is_empty(), "nothing more is sent on it");
    })
    .await;
    let subject = Subject::at(address);
    for _ in 0..2 {
        let response = subject.post().await.unwrap();
        assert_eq!(response.version(), http::Version::HTTP_11);
        assert_eq!(response.headers()["via"], "1.0 oncekey");
        whole(response).await.unwrap();
    }
}

#[tokio::test]
async fn the_fields_of_a_hop_stay_on_it() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\n\
        Proxy-Authenticate: Basic\r\nVia: 1.1 cache\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\n\r\nok";
    let response = closing_after(answer).await.post().await.unwrap();
    let mut names: Vec<&str> = response.headers().keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "set-cookie", "via"]);
    assert_eq!(response.headers()["via"], "1.1 cache, 1.1 oncekey");
    assert_eq!(response.headers().get_all("set-cookie").iter().collect::<Vec<_>>(), ["a=1", "b=2"]);
}

#[tokio::test]
async fn trailers_arrive_and_free_the_connection() {
    let address = upstream(|number, mut peer| async move {
        assert_eq!(number, 0, "one connection is enough");
        while peer.try_message().await.is_some() {
            peer.send("HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 9\r\n\r\n")
                .await;
        }
    })
    .await;
    let subject = Subject::at(address);
    for _ in 0..2 {
        let response = subject.post().await.unwrap();
        assert_eq!(response.headers()["trailer"], "X-Sum");
        let collected = within(response.into_body().collect()).await.unwrap();
        assert_eq!(collected.trailers().unwrap()["x-sum"], "9");
    }
}

#[tokio::test]
async fn redirects_and_encoded_bodies_pass_as_they_are() {
    let answer =
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nraw";
    let response = closing_after(answer).await.post().await.unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["content-encoding"]), (302, &"gzip".parse().unwrap()));
    assert_eq!(whole(response).await.unwrap(), "raw");
}
