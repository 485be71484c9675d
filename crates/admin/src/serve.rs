//! The accept loop of the admin listener, apart from the guarded traffic's: bounded connections, bounded waiting.

use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

use crate::access::Peer;

/// Connections at once; further ones wait in the listener's backlog.
const MAX_CONNECTIONS: usize = 256;
/// How long a connection may take for a request's head, idle time included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long connections may finish what they do once shutdown has begun.
const GRACE: Duration = Duration::from_secs(5);

/// Serves `router` on `listener` until `shutdown` is done, then lets calls at work end for up to five seconds. Dropping
/// the future closes the listener and all its connections at once.
pub async fn serve(listener: TcpListener, router: Router, shutdown: impl Future<Output = ()>) {
    let (stop, stopping) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(connection(stream, Peer(peer.ip()), router.clone(), stopping.clone()));
                }
                Err(error) => pause_after(&error).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    stop.send_replace(());
    let ended = async { while connections.join_next().await.is_some() {} };
    // Whoever hangs on longer is cut off when `connections` is dropped.
    let _ = timeout(GRACE, ended).await;
}

async fn connection(stream: TcpStream, peer: Peer, router: Router, mut stopping: watch::Receiver<()>) {
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer);
        router.clone().oneshot(request.map(Body::new))
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        // The one change there is to this value is that shutdown begins.
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an admin connection ended early");
    }
}

/// A connection that died in the backlog is no reason to wait; running out of file descriptors is, or the loop would spin.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::warn!(%error, "the admin listener can't accept");
        sleep(Duration::from_millis(100)).await;
    }
}
