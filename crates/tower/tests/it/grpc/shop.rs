//! A gRPC service and its client, as a generator would write them: one method, `shop.Orders/Place`.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream};
use http::HeaderValue;
use http_body::Frame;
use http_body_util::BodyExt;
use oncekey_engine::Attempt;
use oncekey_tower::IdempotencyLayer;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

use crate::harness::spawn;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Order {
    #[prost(string, tag = "1")]
    pub(crate) sku: String,
    #[prost(uint32, tag = "2")]
    pub(crate) amount: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Placed {
    #[prost(uint32, tag = "1")]
    pub(crate) number: u32,
    #[prost(string, tag = "2")]
    pub(crate) sku: String,
}

/// Answers the n-th call, from 1.
pub(crate) type Handler = Arc<dyn Fn(u32, Order) -> BoxFuture<'static, Result<Response<Placed>, Status>> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Shop {
    handler: Handler,
    runs: Arc<AtomicU32>,
    in_the_end: Arc<Mutex<Option<Status>>>,
}

impl Shop {
    pub(crate) fn new(handler: Handler) -> Self {
        Self { handler, runs: Arc::default(), in_the_end: Arc::default() }
    }

    pub(crate) fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    /// Ends every answer with this status instead of its own.
    pub(crate) fn fail_after_the_message(&self, status: Status) {
        *self.in_the_end.lock() = Some(status);
    }

    /// Serves it on a port of its own, and connects to it.
    pub(crate) async fn serve(self, layer: IdempotencyLayer) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder().layer(layer).add_service(self);
        spawn(async move { server.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap() });
        Client(Endpoint::new(format!("http://{address}")).unwrap().connect().await.unwrap())
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
        assert_eq!(request.uri().path(), "/shop.Orders/Place");
        assert!(!request.headers().contains_key("grpc-timeout"), "the client's deadline isn't the execution's");
        let shop = self.clone();
        async move {
            let in_the_end = shop.in_the_end.lock().clone();
            let answer = tonic::server::Grpc::new(ProstCodec::default()).unary(shop, request).await;
            Ok(match in_the_end {
                Some(status) => answer.map(|body| ended_by(body, &status)),
                None => answer,
            })
        }
        .boxed()
    }
}

impl Service<Request<Order>> for Shop {
    type Response = Response<Placed>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Response<Placed>, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Order>) -> Self::Future {
        let (keyed, attempt) =
            (request.metadata().contains_key("idempotency-key"), request.extensions().get::<Attempt>());
        assert_eq!(attempt.map(|attempt| attempt.number >= 1), keyed.then_some(true), "a handler sees its attempt");
        let number = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        (self.handler)(number, request.into_inner())
    }
}

fn ended_by(body: Body, status: &Status) -> Body {
    let (code, message) = (i32::from(status.code()), HeaderValue::from_str(status.message()).unwrap());
    let body = body.map_frame(move |frame| {
        frame.into_data().map_or_else(
            |_| {
                let mut trailers = http::HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from(code));
                trailers.insert("grpc-message", message.clone());
                Frame::trailers(trailers)
            },
            Frame::data,
        )
    });
    Body::new(body)
}

#[derive(Clone)]
pub(crate) struct Client(Channel);

impl Client {
    pub(crate) async fn place(&mut self, request: Request<Order>) -> Result<Response<Placed>, Status> {
        self.stream(request.map(|order| futures_util::stream::iter([order]))).await
    }

    pub(crate) async fn stream<S>(&mut self, request: Request<S>) -> Result<Response<Placed>, Status>
    where
        S: Stream<Item = Order> + Send + 'static,
    {
        let mut client = tonic::client::Grpc::new(self.0.clone());
        client.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let path = http::uri::PathAndQuery::from_static("/shop.Orders/Place");
        client.client_streaming(request, path, ProstCodec::default()).await
    }
}
