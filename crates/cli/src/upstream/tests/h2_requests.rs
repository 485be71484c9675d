//! HTTP/2: what the upstream gets to read.

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::mpsc;

use super::*;
use crate::scripted::frames::WINDOW;

struct Received {
    head: http::request::Parts,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
}

/// Sends a request to a real server and returns what arrives.
async fn arrives(request: Request<RequestBody>) -> Received {
    let (seen, mut messages) = mpsc::unbounded_channel();
    let address = upstream(move |_, peer| {
        let seen = seen.clone();
        async move {
            let mut connection = h2::server::handshake(peer.into_stream()).await.unwrap();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let seen = seen.clone();
                TaskTracker::new().spawn(async move {
                    let (head, mut stream) = request.into_parts();
                    let mut body = Vec::new();
                    while let Some(data) = stream.data().await {
                        let data = data.unwrap();
                        stream.flow_control().release_capacity(data.len()).unwrap();
                        body.extend_from_slice(&data);
                    }
                    let trailers = stream.trailers().await.unwrap();
                    seen.send(Received { head, body, trailers }).unwrap();
                    respond.send_response(Response::new(()), true).unwrap();
                });
            }
        }
    })
    .await;
    Subject::two(address).send(request).await.unwrap();
    within(messages.recv()).await.unwrap()
}

fn with(mut request: Request<RequestBody>, fields: &[(&'static str, &'static str)]) -> Request<RequestBody> {
    for (name, value) in fields {
        request.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    request
}

#[tokio::test]
async fn a_keyed_request_has_the_form_of_http_2() {
    let request = with(
        keyed(running().await.attempt),
        &[
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("cookie", "a=1; b=2"),
            ("idempotency-key", "k-1"),
            ("expect", "100-continue"),
        ],
    );
    let Received { head, body, .. } = arrives(request).await;
    assert_eq!(head.uri, "http://shop.example/orders?a=1");
    let mut names: Vec<&str> = head.headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    let expected =
        ["content-length", "cookie", "idempotency-key", "te", "via", "x-forwarded-host", "x-forwarded-proto"];
    assert_eq!(names, expected);
    assert_eq!(
        (&head.headers["te"], &head.headers["content-length"]),
        (&"trailers".parse().unwrap(), &"8".parse().unwrap())
    );
    assert_eq!(head.headers["via"], "1.1 oncekey");
    assert_eq!(body, b"an order");
}

#[tokio::test]
async fn a_body_of_unknown_size_goes_with_its_trailers() {
    let (chunks, body) = channel_body();
    chunks.send(Ok(Frame::data(Bytes::from_static(b"stre")))).await.unwrap();
    chunks.send(Ok(Frame::data(Bytes::new()))).await.unwrap();
    chunks.send(Ok(Frame::data(Bytes::from_static(b"amed")))).await.unwrap();
    let trailers = [("x-sum".parse().unwrap(), "9".parse().unwrap())].into_iter().collect();
    chunks.send(Ok(Frame::trailers(trailers))).await.unwrap();
    drop(chunks);
    let received = arrives(with(unguarded(Method::POST, body), &[("trailer", "x-sum")])).await;
    assert!(!received.head.headers.contains_key("content-length"));
    assert!(!received.head.headers.contains_key("te"), "nobody asked for trailers");
    assert_eq!(received.body, b"streamed");
    assert_eq!(received.trailers.unwrap()["x-sum"], "9");
}

#[tokio::test]
async fn an_empty_body_is_no_frame_of_its_own() {
    for method in [Method::GET, Method::DELETE, Method::POST] {
        let received = arrives(unguarded(method.clone(), RequestBody::whole(Bytes::new()))).await;
        assert_eq!(received.head.method, method);
        assert_eq!(received.head.headers.contains_key("content-length"), method == Method::POST);
        assert!(received.body.is_empty());
    }
}

#[tokio::test]
async fn options_of_the_whole_server_pass() {
    let mut request = unguarded(Method::OPTIONS, RequestBody::whole(Bytes::new()));
    *request.uri_mut() = "*".parse().unwrap();
    assert_eq!(arrives(request).await.head.uri.path(), "*");
}

#[tokio::test]
async fn a_request_without_a_host_gets_the_upstreams() {
    let mut request = unguarded(Method::GET, RequestBody::whole(Bytes::new()));
    request.headers_mut().remove("host");
    *request.version_mut() = http::Version::HTTP_10;
    let received = arrives(request).await;
    assert!(received.head.uri.authority().unwrap().as_str().starts_with("127.0.0.1:"));
    assert_eq!(received.head.headers["via"], "1.0 oncekey");
}

#[tokio::test]
async fn what_http_2_can_not_say_is_not_sent() {
    let refused = |request| async move {
        let address = upstream(|_, peer| async move {
            assert!(Frames::begin(peer, &[]).await.try_request().await.is_none(), "nothing is sent");
        })
        .await;
        is_not_sent(Subject::two(address).send(request).await)
    };
    let connect = unguarded(Method::CONNECT, RequestBody::whole(Bytes::new()));
    assert!(refused(connect).await);
    let mut host = unguarded(Method::GET, RequestBody::whole(Bytes::new()));
    host.headers_mut().insert("host", HeaderValue::from_static("a b"));
    assert!(refused(host).await);
}

#[tokio::test]
async fn a_body_goes_as_fast_as_the_window_opens() {
    let (seen, mut bodies) = mpsc::unbounded_channel();
    let address = upstream(move |_, peer| {
        let seen = seen.clone();
        async move {
            let mut frames = Frames::begin(peer, &[(WINDOW, 3)]).await;
            let mut frame = frames.next().await.unwrap();
            let stream = frame.stream;
            let mut pieces = Vec::new();
            while !frame.ends() {
                frame = frames.next().await.unwrap();
                pieces.push(String::from_utf8(frame.payload.clone()).unwrap());
                frames.send(8, 0, stream, &3_u32.to_be_bytes()).await;
            }
            seen.send(pieces).unwrap();
            frames.ok(stream).await;
            frames.rest().await;
        }
    })
    .await;
    assert_eq!(whole(Subject::two(address).post().await.unwrap()).await.unwrap(), "ok");
    assert_eq!(within(bodies.recv()).await.unwrap(), ["an ", "ord", "er"]);
}

#[tokio::test]
async fn a_body_that_breaks_off_resets_its_stream_and_is_broken() {
    let (seen, mut ends) = mpsc::unbounded_channel();
    let address = upstream(move |_, peer| {
        let seen = seen.clone();
        async move {
            let mut frames = Frames::begin(peer, &[]).await;
            let mut frame = frames.next().await.unwrap();
            while frame.kind != crate::scripted::frames::RST_STREAM {
                assert!(!frame.ends(), "half a body isn't a whole one");
                frame = frames.next().await.unwrap();
            }
            seen.send(frame.code()).unwrap();
            frames.rest().await;
        }
    })
    .await;
    let (chunks, body) = channel_body();
    chunks.send(Ok(Frame::data(Bytes::from_static(b"half")))).await.unwrap();
    chunks.send(Err(std::io::Error::other("the client hung up"))).await.unwrap();
    assert!(is_broken(Subject::two(address).send(unguarded(Method::POST, body)).await));
    assert_eq!(within(ends.recv()).await.unwrap(), u32::from(h2::Reason::CANCEL));
}
