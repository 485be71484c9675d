//! A function that places orders once, served by hyper. Run it as its README says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::{server::conn::auto, service::TowerToHyperService};
use oncekey::{MemoryStore, Oncekey, Options, RequestBody};

static ORDERS: AtomicU32 = AtomicU32::new(0);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    // Forgets everything at the end; `oncekey::sqlite::open` gives a store that doesn't.
    let oncekey = Oncekey::start(Arc::new(MemoryStore::default()), Options::default()).await?;
    let service = tower::ServiceBuilder::new().layer(oncekey.layer()).service_fn(place);
    let service = TowerToHyperService::new(service);

    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    let (server, connections) = (auto::Builder::new(TokioExecutor::new()), tokio_util::task::TaskTracker::new());
    while let Some(accepted) =
        tokio::select! { accepted = listener.accept() => Some(accepted), _ = tokio::signal::ctrl_c() => None }
    {
        let (socket, server, service) = (TokioIo::new(accepted?.0), server.clone(), service.clone());
        connections.spawn(async move { server.serve_connection(socket, service).await });
    }
    oncekey.shutdown().await;
    Ok(())
}

async fn place(_: Request<RequestBody>) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
    let order = ORDERS.fetch_add(1, Ordering::Relaxed) + 1;
    Ok(Response::new(Full::from(format!("order {order} placed\n"))))
}
