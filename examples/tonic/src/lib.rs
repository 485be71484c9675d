//! The service `shop.Orders` and its client, written by hand as a generator would write them, so that building the example needs
//! no protobuf compiler. oncekey is in `main.rs`.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::uri::PathAndQuery;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

/// What is ordered.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Order {
    /// The article.
    #[prost(string, tag = "1")]
    pub sku: String,
}

/// The order as it was placed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Placed {
    /// Its number, from 1.
    #[prost(uint32, tag = "1")]
    pub number: u32,
}

/// `service Orders { rpc Place(Order) returns (Placed); }`
#[derive(Clone, Debug, Default)]
pub struct Orders {
    placed: Arc<AtomicU32>,
}

impl Orders {
    /// The method itself.
    fn place(&self, order: &Order) -> Result<Response<Placed>, Status> {
        if order.sku.is_empty() {
            return Err(Status::invalid_argument("say what you order"));
        }
        Ok(Response::new(Placed { number: self.placed.fetch_add(1, Ordering::Relaxed) + 1 }))
    }
}

impl NamedService for Orders {
    const NAME: &'static str = "shop.Orders";
}

impl Service<http::Request<Body>> for Orders {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let orders = self.clone();
        let place =
            tower::service_fn(move |request: Request<Order>| std::future::ready(orders.place(&request.into_inner())));
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/shop.Orders/Place" => tonic::server::Grpc::new(ProstCodec::default()).unary(place, request).await,
                _ => Status::unimplemented("there is no such method").into_http(),
            })
        })
    }
}

/// Places an order under a key, in the name of `acc-1`.
pub async fn place(server: &str, key: &str, sku: &str) -> Result<Response<Placed>, Status> {
    let unreachable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
    let channel: Channel =
        Endpoint::new(server.to_owned()).map_err(unreachable)?.connect().await.map_err(unreachable)?;
    let mut request = Request::new(Order { sku: sku.to_owned() });
    let key = key.parse().map_err(|_| Status::invalid_argument("the key can't be sent"))?;
    request.metadata_mut().insert("idempotency-key", key);
    request.metadata_mut().insert("x-account-id", tonic::metadata::MetadataValue::from_static("acc-1"));
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(unreachable)?;
    client.unary(request, PathAndQuery::from_static("/shop.Orders/Place"), ProstCodec::default()).await
}
