//! The listener against raw clients, alone and with a scripted upstream behind it.

mod draining;
mod early_answers;
mod framing;
mod http2;
mod older_clients;
mod streams;
mod tunnels;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use oncekey_core::Timestamp;
use oncekey_store::ManualClock;
use oncekey_tower::{BodyError, RequestBody, ResponseBody};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tower::{Service, ServiceExt};

use super::{ClientBody, Current, FrontOptions, Refusals, Serving, serve};
use crate::drain::Drain;
use crate::scripted::{Message, Peer, upstream, within};
use crate::upstream::{Upstream, UpstreamOptions};

/// A listener under test.
struct Gateway {
    address: SocketAddr,
    drain: Drain,
}

impl Gateway {
    async fn serving<S>(service: S) -> Self
    where
        S: Service<Request<ClientBody>, Response = Response<ResponseBody>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BodyError>,
    {
        Self::with(service, options(), Drain::new()).await
    }

    async fn with<S>(service: S, options: FrontOptions, drain: Drain) -> Self
    where
        S: Service<Request<ClientBody>, Response = Response<ResponseBody>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BodyError>,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let current = Current::new(Serving { service, refusals: Refusals::default() });
        serve((listener, None), current, &options, &drain);
        Self { address, drain }
    }

    /// A gateway that passes everything on to an upstream.
    async fn before(upstream: SocketAddr) -> Self {
        let drain = Drain::new();
        let clock = Arc::new(ManualClock::at(Timestamp::from_micros(0)));
        let reached = UpstreamOptions::at(upstream.to_string().parse().unwrap());
        let upstream = Upstream::new(reached, clock, drain.clone());
        let pass = tower::service_fn(move |request: Request<ClientBody>| {
            let upstream = upstream.clone();
            async move {
                upstream.oneshot(request.map(RequestBody::streaming)).await.map(|r| r.map(ResponseBody::streaming))
            }
        });
        Self::with(pass, options(), drain).await
    }

    /// A gateway that passes everything on to an upstream which treats each connection so.
    async fn before_scripted<T>(serve: impl Fn(usize, Peer) -> T + Send + 'static) -> Self
    where
        T: Future<Output = ()> + Send + 'static,
    {
        Self::before(upstream(serve).await).await
    }

    /// A gateway that reads each request whole, tells what it read, and answers it.
    async fn telling() -> (Self, mpsc::UnboundedReceiver<String>) {
        let (seen, told) = mpsc::unbounded_channel();
        let service = tower::service_fn(move |request: Request<ClientBody>| {
            let seen = seen.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let host = head.headers.get("host").map_or("-", |host| host.to_str().unwrap());
                let read = format!("{} {host} {} {}", head.method, head.uri, String::from_utf8_lossy(&body));
                seen.send(read.clone()).unwrap();
                Ok::<_, BodyError>(Response::new(ResponseBody::whole(Bytes::from(read))))
            }
        });
        (Self::serving(service).await, told)
    }

    /// A gateway that answers 413 without reading any body, and GET with "got".
    async fn refusing() -> Self {
        let service = tower::service_fn(|request: Request<ClientBody>| async move {
            let mut response = Response::new(ResponseBody::whole(Bytes::from_static(b"got")));
            if request.method() != http::Method::GET {
                *response.status_mut() = http::StatusCode::PAYLOAD_TOO_LARGE;
            }
            Ok::<_, BodyError>(response)
        });
        Self::serving(service).await
    }

    async fn client(&self) -> Peer {
        Peer::connect(self.address).await
    }

    /// Sends bytes on a new connection and reads one answer.
    async fn ask(&self, request: impl AsRef<[u8]>) -> Message {
        let mut client = self.client().await;
        client.send(request).await;
        client.message().await
    }
}

/// Bounds that no test meets by chance.
fn options() -> FrontOptions {
    FrontOptions {
        max_connections: 1000,
        max_streams: 100,
        max_header_bytes: 16 * 1024,
        max_headers: 100,
        head_timeout: Duration::from_mins(1),
        body_timeout: Duration::from_mins(1),
        write_timeout: Duration::from_mins(1),
        idle_timeout: Duration::from_mins(1),
    }
}

const GET: &str = "GET /next HTTP/1.1\r\nHost: shop.example\r\n\r\n";

/// Reads an answer and asserts that the connection ends after it, in order.
async fn last_message(client: &mut Peer) -> Message {
    let message = client.message().await;
    assert_eq!(client.rest().await.unwrap(), b"", "nothing follows {}", message.head);
    message
}
