//! What the gateway is measured against, each a process of its own: the plainest reverse proxy that hyper makes, and an
//! upstream that costs next to nothing.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use http::uri::{Authority, Scheme, Uri};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::Result;

/// What stands before the address on the line that says that a process is ready.
pub(super) const READY: &str = "listening on ";

/// The upstream's answer to everything: an order as a real API would give it, some 200 bytes.
pub(super) const ORDER: &[u8] = br#"{"order_id":"9f1c2d3e-4b5a-6978-8796-a5b4c3d2e1f0","account_id":"bench","amount":1200,"currency":"EUR","items":[{"sku":"tea-green-100","qty":2},{"sku":"cup-white","qty":1}],"status":"created"}"#;

type Pool<B> = Client<HttpConnector, B>;
pub(super) type Error = Box<dyn std::error::Error + Send + Sync>;

/// Runs the upstream until it is killed.
pub(crate) fn upstream() -> Result {
    super::runtime()?.block_on(serve(take_order))
}

/// Runs the proxy until it is killed: everything goes to one upstream, bodies stream, connections are pooled.
pub(crate) fn proxy(upstream: SocketAddr) -> Result {
    let authority: Authority = upstream.to_string().parse()?;
    super::runtime()?.block_on(async {
        let pool = pool();
        serve(move |request| pass_on(pool.clone(), authority.clone(), request)).await
    })
}

/// Pooled connections to an upstream.
pub(super) fn pool<B: Body<Data: Send> + Send>() -> Pool<B> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

async fn take_order(request: Request<Incoming>) -> std::result::Result<Response<Full<Bytes>>, Error> {
    // The body is read, as any application would.
    request.into_body().collect().await?;
    let mut response = Response::new(Full::new(Bytes::from_static(ORDER)));
    *response.status_mut() = StatusCode::CREATED;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Passes a request on as it is.
pub(super) async fn pass_on<B>(
    pool: Pool<B>,
    authority: Authority,
    mut request: Request<B>,
) -> std::result::Result<Response<Incoming>, Error>
where
    B: Body<Data: Send, Error: Into<Error>> + Send + Unpin + 'static,
{
    let mut target = std::mem::take(request.uri_mut()).into_parts();
    (target.scheme, target.authority) = (Some(Scheme::HTTP), Some(authority));
    *request.uri_mut() = Uri::from_parts(target)?;
    request.headers_mut().remove(CONNECTION);
    let mut response = pool.request(request).await?;
    response.headers_mut().remove(CONNECTION);
    Ok(response)
}

/// Serves HTTP/1.1 on a free loopback port, says which on stdout, and goes on until the process is killed.
pub(super) async fn serve<A, F, B>(answer: A) -> Result
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = std::result::Result<Response<B>, Error>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Error>> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{READY}{}", listener.local_addr()?);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                stream.set_nodelay(true)?;
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer.clone())));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
