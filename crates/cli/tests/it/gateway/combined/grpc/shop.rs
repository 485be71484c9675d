//! A gRPC service and its client, as a generator would write them: `shop.Orders/Place`, which takes one order, and
//! `shop.Orders/PlaceAll`, a stream of them.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, Stream, StreamExt};
use http::HeaderValue;
use http::uri::PathAndQuery;
use http_body::Frame;
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use oncekey_testkit::tls::Trust;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::Service;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Order {
    #[prost(string, tag = "1")]
    pub(super) sku: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Placed {
    #[prost(uint32, tag = "1")]
    pub(super) number: u32,
    #[prost(string, tag = "2")]
    pub(super) sku: String,
}

/// Orders as the test sends them.
pub(super) struct Orders(pub(super) mpsc::UnboundedReceiver<Order>);

impl Stream for Orders {
    type Item = Order;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Order>> {
        self.0.poll_recv(cx)
    }
}

/// The service. There is no `none`, and `wait` is placed once the shop opens. Clones are the same shop.
#[derive(Clone)]
pub(super) struct Shop {
    runs: Arc<AtomicU32>,
    opened: Arc<Semaphore>,
}

impl Default for Shop {
    fn default() -> Self {
        Self { runs: Arc::default(), opened: Arc::new(Semaphore::new(0)) }
    }
}

impl Shop {
    pub(super) fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    pub(super) fn open(&self) {
        self.opened.add_permits(1);
    }

    /// Serves it on a port of its own, for as long as the set isn't dropped.
    pub(super) async fn serve(self) -> (SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port can be had");
        let address = listener.local_addr().expect("it is bound");
        let serving = Server::builder().add_service(self).serve_with_incoming(TcpIncoming::from(listener));
        let mut server = JoinSet::new();
        server.spawn(serving.map(|served| served.expect("it serves")));
        (address, server)
    }

    async fn place(self, order: Order) -> Result<Response<Placed>, Status> {
        let number = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        match &*order.sku {
            "none" => return Err(Status::new(Code::NotFound, "no such thing: 100%")),
            "wait" => self.opened.acquire().await.expect("it is never closed").forget(),
            _ => {}
        }
        Ok(Response::new(Placed { number, sku: order.sku }))
    }
}

impl NamedService for Shop {
    const NAME: &'static str = "shop.Orders";
}

impl Service<http::Request<Body>> for Shop {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let shop = self.clone();
        async move {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::default());
            let answer = match request.uri().path() {
                "/shop.Orders/Place" => grpc.unary(One(shop), request).await,
                _ => grpc.streaming(All, request).await,
            };
            Ok(answer.map(|body| Body::new(body.map_frame(with_sum))))
        }
        .boxed()
    }
}

/// Puts a further trailer beside the status.
fn with_sum(frame: Frame<bytes::Bytes>) -> Frame<bytes::Bytes> {
    frame.into_trailers().map_or_else(
        |frame| frame,
        |mut trailers| {
            trailers.insert("x-sum", HeaderValue::from_static("42"));
            Frame::trailers(trailers)
        },
    )
}

struct One(Shop);

impl Service<Request<Order>> for One {
    type Response = Response<Placed>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Response<Placed>, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Order>) -> Self::Future {
        self.0.clone().place(request.into_inner()).boxed()
    }
}

struct All;

impl Service<Request<Streaming<Order>>> for All {
    type Response = Response<BoxStream<'static, Result<Placed, Status>>>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Self::Response, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Streaming<Order>>) -> Self::Future {
        let orders = request.into_inner();
        let placed = orders.map(|order| order.map(|order| Placed { number: 0, sku: order.sku }));
        std::future::ready(Ok(Response::new(placed.boxed()))).boxed()
    }
}

#[derive(Clone)]
pub(super) struct Client(Channel);

impl Client {
    /// Connects, through TLS if that is given.
    pub(super) async fn connect(address: SocketAddr, tls: Option<Trust>) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::new(format!("http://{address}")).expect("an address is a URL");
        let origin = format!("{scheme}://{address}").parse().expect("an address is a URL");
        let tls = tls.map(|tls| tls.offering(&[b"h2"]));
        let connector = tower::service_fn(move |_: http::Uri| {
            let tls = tls.clone();
            async move {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                let stream: Pin<Box<dyn Bytestream>> = match tls {
                    None => Box::pin(stream),
                    Some(tls) => Box::pin(tls.connect(stream).await?),
                };
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        });
        Self(endpoint.origin(origin).connect_with_connector(connector).await.expect("connected"))
    }

    pub(super) async fn place(&mut self, request: Request<Order>) -> Result<Response<Placed>, Status> {
        let mut client = tonic::client::Grpc::new(self.0.clone());
        client.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        client.unary(request, PathAndQuery::from_static("/shop.Orders/Place"), ProstCodec::default()).await
    }

    pub(super) async fn place_all(&mut self, orders: Orders) -> Result<Response<Streaming<Placed>>, Status> {
        let mut client = tonic::client::Grpc::new(self.0.clone());
        client.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let path = PathAndQuery::from_static("/shop.Orders/PlaceAll");
        client.streaming(Request::new(orders), path, ProstCodec::default()).await
    }
}

trait Bytestream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send {}

impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send> Bytestream for T {}
