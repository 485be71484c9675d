//! The accept loop on a real socket.

use std::net::{Ipv4Addr, SocketAddr};

use oncekey_admin::serve;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::world::world;

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinSet<()>,
}

async fn running() -> Running {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let mut served = tokio::task::JoinSet::new();
    let router = world().await.router;
    served.spawn(serve(listener, router, async move {
        let _ = stopped.await;
    }));
    Running { address, stop, served }
}

async fn exchange(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while !answer.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = stream.read(&mut part).await.unwrap();
        assert!(read > 0, "the connection ended before an answer");
        answer.extend_from_slice(&part[..read]);
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_connection_is_kept_for_further_requests_and_checked_at_each() {
    let mut running = running().await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let good = exchange(&mut stream, "GET /api/stats HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(good.starts_with("HTTP/1.1 200"), "{good}");
    let evil = exchange(&mut stream, "GET /api/stats HTTP/1.1\r\nHost: evil.example\r\n\r\n").await;
    assert!(evil.starts_with("HTTP/1.1 403"), "{evil}");
    let none = exchange(&mut stream, "GET /healthz HTTP/1.0\r\n\r\n").await;
    assert!(none.starts_with("HTTP/1.0 200"), "{none}");
    running.stop.send(()).unwrap();
    running.served.join_next().await.unwrap().unwrap();
}

#[tokio::test]
async fn shutdown_closes_idle_connections_and_the_listener() {
    let mut running = running().await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    exchange(&mut stream, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    running.stop.send(()).unwrap();
    running.served.join_next().await.unwrap().unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}
