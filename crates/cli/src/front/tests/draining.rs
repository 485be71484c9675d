//! The end of the gateway's connections (D4).

use std::time::Duration;

use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;

use super::*;

/// Starts a drain beside the test.
fn start(drain: &Drain, delay: Duration, limit: Duration) -> tokio::task::JoinHandle<usize> {
    let drain = drain.clone();
    TaskTracker::new().spawn(async move {
        drain.begin(delay).await;
        drain.ended_within(limit).await;
        drain.cut_the_rest().await
    })
}

const LONG: Duration = Duration::from_mins(1);

#[tokio::test]
async fn running_requests_finish_while_idle_connections_close() {
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let (finish, finishing) = tokio::sync::watch::channel(false);
    let service = tower::service_fn(move |request: Request<ClientBody>| {
        let (arrived, mut finishing) = (arrived.clone(), finishing.clone());
        async move {
            if request.uri().path() == "/slow" {
                arrived.send(()).unwrap();
                finishing.wait_for(|finish| *finish).await.unwrap();
            }
            Ok::<_, BodyError>(Response::new(ResponseBody::whole(Bytes::from_static(b"done"))))
        }
    });
    let gateway = Gateway::serving(service).await;
    let (mut idle, mut fresh, mut running) = (gateway.client().await, gateway.client().await, gateway.client().await);
    idle.send(GET).await;
    idle.message().await;
    running.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await;
    within(arrivals.recv()).await.unwrap();

    let drained = start(&gateway.drain, Duration::ZERO, LONG);
    assert_eq!(idle.rest().await.unwrap(), b"");
    assert_eq!(fresh.rest().await.unwrap(), b"");
    assert!(TcpStream::connect(gateway.address).await.is_err(), "nobody accepts any more");
    finish.send(true).unwrap();
    let answer = last_message(&mut running).await;
    assert_eq!((answer.field("connection"), &answer.body[..]), (Some("close"), &b"done"[..]));
    assert_eq!(within(drained).await.unwrap(), 0);
}

#[tokio::test]
async fn streams_and_tunnels_are_cut_when_the_time_is_over() {
    let gateway = Gateway::before_scripted(|_, mut peer| async move {
        let request = peer.message().await;
        if request.field("upgrade").is_some() {
            peer.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n").await;
        } else {
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n").await;
        }
        let _ = peer.rest().await;
    })
    .await;
    let (mut stream, mut tunnel) = (gateway.client().await, gateway.client().await);
    stream.send(GET).await;
    stream.head().await.unwrap();
    tunnel.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n").await;
    tunnel.head().await.unwrap();
    let drained = start(&gateway.drain, Duration::ZERO, Duration::from_millis(50));
    assert_eq!(within(drained).await.unwrap(), 2);
    let cut = stream.rest().await.unwrap_or_default();
    assert!(!cut.ends_with(b"0\r\n\r\n"), "a stream that is cut must not look whole");
    assert_eq!(tunnel.rest().await.unwrap_or_default(), b"");
}

#[tokio::test]
async fn accepting_goes_on_for_the_delay() {
    let (gateway, _told) = Gateway::telling().await;
    let drained = start(&gateway.drain, LONG, LONG);
    tokio::task::yield_now().await;
    assert_eq!(gateway.ask(GET).await.start(), "http/1.1 200 ok");
    drained.abort();
}
