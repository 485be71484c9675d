//! Upgrades: a tunnel after a 101, and nothing of the kind where one isn't due.

use super::*;

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: y\r\n\r\n";

/// An upstream that changes protocol and then says everything twice, until it hears the end.
async fn echoing() -> Gateway {
    Gateway::before_scripted(|_, mut peer| async move {
        let request = peer.message().await;
        assert_eq!((request.field("upgrade"), request.field("connection")), (Some("websocket"), Some("upgrade")));
        // The first bytes of the new protocol come with the head.
        peer.send(format!("{SWITCH}hello")).await;
        let said = peer.rest().await.unwrap();
        peer.send([&said[..], &said[..]].concat()).await;
    })
    .await
}

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_and_each_end_by_itself() {
    let gateway = echoing().await;
    let mut client = gateway.client().await;
    client.send(format!("{ASK}early ")).await;
    let head = Message { head: client.head().await.unwrap(), body: Vec::new(), trailers: String::new() };
    assert_eq!(head.start(), "http/1.1 101 switching protocols");
    assert_eq!((head.field("upgrade"), head.field("connection")), (Some("websocket"), Some("upgrade")));
    assert_eq!(head.field("sec-websocket-accept"), Some("y"));
    assert_eq!(client.bytes(5).await, b"hello");
    client.send("late").await;
    client.end().await;
    assert_eq!(client.rest().await.unwrap(), b"early lateearly late");
}

#[tokio::test]
async fn a_refused_upgrade_is_an_answer_like_any_other() {
    let gateway = Gateway::before_scripted(|_, mut peer| async move {
        while let Some(request) = peer.try_message().await {
            let status = if request.field("upgrade").is_some() { "403 Forbidden" } else { "200 OK" };
            peer.send(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok")).await;
        }
    })
    .await;
    let mut client = gateway.client().await;
    client.send(ASK).await;
    assert_eq!(client.message().await.start(), "http/1.1 403 forbidden");
    client.send(GET).await;
    assert_eq!(client.message().await.start(), "http/1.1 200 ok");
}

#[tokio::test]
async fn a_change_to_another_http_or_in_mid_body_is_not_asked_for() {
    let gateway = Gateway::before_scripted(|_, mut peer| async move {
        let request = peer.message().await;
        assert_eq!((request.field("upgrade"), request.field("connection")), (None, None), "{}", request.head);
        peer.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    })
    .await;
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket, HTTP/2.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nhi",
    ] {
        assert!(gateway.ask(request).await.start().ends_with("204 no content"), "{request:?}");
    }
}

#[tokio::test]
async fn a_protocol_that_nobody_asked_for_is_no_answer() {
    let gateway = Gateway::before_scripted(|_, mut peer| async move {
        peer.message().await;
        peer.send(SWITCH).await;
        assert!(peer.rest().await.unwrap().is_empty());
    })
    .await;
    assert_eq!(gateway.ask(GET).await.start(), "http/1.1 502 bad gateway");
}
