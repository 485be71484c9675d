//! Streams of HTTP/2 in front of scripted upstreams: trailers, and connections that don't wait for what isn't theirs.

use std::time::Duration;

use oncekey_testkit::{Call, Http2Client, whole};

use super::*;

#[tokio::test]
async fn trailers_pass_both_ways() {
    let gateway = Gateway::before_scripted(|_, mut peer| async move {
        let request = peer.message().await;
        assert_eq!((request.field("te"), &request.trailers[..]), (Some("trailers"), "x-in: 1"));
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Out: 2\r\n\r\n").await;
    })
    .await;
    let client = Http2Client::connect(gateway.address).await.unwrap();
    let call = Call::post("/").header("te", "trailers").header("trailer", "x-in");
    let (response, mut body) = client.open(&call, false).await.unwrap();
    body.send_data(Bytes::from_static(b"hi"), false).unwrap();
    body.send_trailers([("x-in".parse().unwrap(), "1".parse().unwrap())].into_iter().collect()).unwrap();
    let answer = within(async { whole(response.await.unwrap()).await.unwrap() }).await;
    assert_eq!((&answer.body[..], answer.trailers["x-out"].to_str().unwrap()), (&b"ok"[..], "2"));
}

/// Of HTTP/1.1 only those get trailers who say that they take them.
#[tokio::test]
async fn trailers_are_kept_from_who_does_not_ask_for_them() {
    let gateway = Gateway::before_scripted(|_, mut peer| async move {
        while peer.try_message().await.is_some() {
            peer.send("HTTP/1.1 200 OK\r\nTrailer: X-Out\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Out: 2\r\n\r\n")
                .await;
        }
    })
    .await;
    let asked = "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n";
    assert_eq!(gateway.ask(asked).await.trailers, "x-out: 2");
    let answer = gateway.ask(GET).await;
    assert_eq!((&answer.body[..], &answer.trailers[..]), (&b"ok"[..], ""));
}

/// A client may speak for as long as it likes once it is answered.
#[tokio::test]
async fn a_quiet_stream_is_not_given_up_while_it_is_answered() {
    let gateway = {
        let pass = tower::service_fn(|request: Request<ClientBody>| async move {
            Ok::<_, BodyError>(Response::new(ResponseBody::streaming(request.into_body())))
        });
        let options = FrontOptions { body_timeout: Duration::from_millis(20), ..options() };
        Gateway::with(pass, options, Drain::new()).await
    };
    let client = Http2Client::connect(gateway.address).await.unwrap();
    let (response, mut body) = client.open(&Call::post("/"), false).await.unwrap();
    let mut response = within(response).await.unwrap();
    for said in ["one", "two"] {
        // There is no event for that nothing happens.
        tokio::time::sleep(Duration::from_millis(100)).await;
        body.send_data(Bytes::from(said), said == "two").unwrap();
        assert_eq!(within(response.body_mut().data()).await.unwrap().unwrap(), said);
    }
}

#[tokio::test]
async fn a_request_of_http_1_is_not_kept_waiting_for_a_preface() {
    let (gateway, _told) = Gateway::telling().await;
    for request in ["P / HTTP/1.1\r\nHost: a\r\n\r\n", "PR / HTTP/1.0\r\n\r\n", "PRI / HTTP/1.1\r\nHost: a\r\n\r\n"] {
        assert!(gateway.ask(request).await.start().ends_with(" 200 ok"), "{request}");
    }
    // Even if it comes byte by byte.
    let mut client = gateway.client().await;
    for byte in GET.bytes() {
        client.send([byte]).await;
    }
    assert_eq!(client.message().await.start(), "http/1.1 200 ok");
}
