//! Both clients, against the counting upstream and against bytes that no good server sends.

use std::io::ErrorKind;

use oncekey_testkit::{Call, Client, CountingUpstream, FaultProxy, RawClient, free_address};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Reads one answer from a server that sends these bytes and closes.
async fn read(bytes: &str) -> std::io::Result<oncekey_testkit::RawAnswer> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut raw = RawClient::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    drop(stream);
    raw.read_answer().await
}

#[tokio::test]
async fn the_client_keeps_its_connection_and_opens_a_new_one_when_it_must() {
    let upstream = CountingUpstream::start().await;
    let proxy = FaultProxy::start(upstream.address()).await;
    let client = Client::new(proxy.address());
    client.post("/", "a", "1", "{}").await.unwrap();
    client.post("/", "a", "2", "{}").await.unwrap();
    assert_eq!(proxy.connections(), 1);
    client.call(&Call::get("/").header("x-test-framing", "close")).await.unwrap();
    client.post("/", "a", "3", "{}").await.unwrap();
    assert_eq!((proxy.connections(), upstream.total()), (2, 4));
}

#[tokio::test]
async fn the_client_never_repeats_a_request() {
    let upstream = CountingUpstream::start().await;
    let client = Client::new(upstream.address());
    client.post("/", "a", "0", "{}").await.unwrap();
    for cut in ["fin", "rst"] {
        let call = Call::post("/").scope("a").key(cut).header("x-test-cut", cut);
        assert!(client.call(&call).await.is_err());
        assert_eq!(upstream.executions("a", cut), 1);
    }
}

#[tokio::test]
async fn a_short_body_is_an_error_for_the_client() {
    let upstream = CountingUpstream::start().await;
    for framing in ["length", "chunked"] {
        let call = Call::post("/").header("x-test-cut", "fin").header("x-test-cut-after", "5");
        assert!(Client::new(upstream.address()).call(&call.header("x-test-framing", framing)).await.is_err());
    }
}

#[tokio::test]
async fn a_refused_connection_is_an_error() {
    let address = free_address().unwrap();
    let error = Client::new(address).call(&Call::get("/")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_client_that_gives_up_closes_its_connection() {
    let upstream = CountingUpstream::start().await;
    let proxy = FaultProxy::start(upstream.address()).await;
    let client = Client::new(proxy.address());
    let gated = Call::post("/").header("x-test-gate", "never");
    tokio::select! {
        _ = client.call(&gated) => panic!("the gate is closed"),
        () = upstream.arrived(1) => {}
    }
    client.call(&Call::get("/")).await.unwrap();
    assert_eq!(proxy.connections(), 2);
}

#[tokio::test]
async fn the_raw_client_sees_names_as_they_were_spelled_and_in_their_order() {
    let answer = read("HTTP/1.1 200 OK\r\nX-B: 1\r\nx-A:2\r\nContent-Length: 2\r\nX-B: \r\n\r\nhi").await.unwrap();
    let headers: Vec<_> = answer.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(headers, [("X-B", "1"), ("x-A", "2"), ("Content-Length", "2"), ("X-B", "")]);
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"hi"[..]));
}

#[tokio::test]
async fn the_raw_client_refuses_answers_with_two_readings() {
    for fields in [
        "Content-Length: 2\r\nContent-Length: 3\r\n",
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: two\r\n",
        "Transfer-Encoding: gzip\r\n",
        "no colon\r\n",
    ] {
        let error = read(&format!("HTTP/1.1 200 OK\r\n{fields}\r\nhi")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{fields}");
    }
    let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhiho\r\n0\r\n\r\n";
    assert_eq!(read(chunk).await.unwrap_err().kind(), ErrorKind::InvalidData);
    assert_eq!(read("SSH-2.0\r\n\r\n").await.unwrap_err().kind(), ErrorKind::InvalidData);
}

#[tokio::test]
async fn the_raw_client_reads_chunks_their_extensions_and_trailers() {
    let answer =
        read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n1\r\n!\r\n0\r\nX-T: 1\r\n\r\n");
    let answer = answer.await.unwrap();
    assert_eq!(answer.body, b"hi!");
    assert_eq!(answer.trailers, [("X-T".to_owned(), "1".to_owned())]);
}

#[tokio::test]
async fn pipelined_answers_are_read_one_by_one() {
    let upstream = CountingUpstream::start().await;
    let mut raw = RawClient::connect(upstream.address()).await.unwrap();
    raw.write("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    for serial in ["1", "2"] {
        assert_eq!(raw.read_answer().await.unwrap().values("x-serial"), [serial]);
    }
}

#[tokio::test]
async fn an_answer_to_a_head_has_no_body() {
    let upstream = CountingUpstream::start().await;
    let mut raw = RawClient::connect(upstream.address()).await.unwrap();
    raw.write("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let head = raw.read_answer_to_head().await.unwrap();
    assert!(head.body.is_empty() && head.values("content-length").len() == 1);
    assert_eq!(raw.read_answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn fin_and_reset_are_what_the_server_sees() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();

    let mut finished = RawClient::connect(address).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    finished.finish().await.unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    assert_eq!(finished.read_answer().await.unwrap().status, 204);

    let reset = RawClient::connect(address).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    reset.reset().unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}
