//! The listener of the gateway: HTTP/2, 1.1 and 1.0 from clients.
//!
//! Owns connections: accepting them, refusing what is wrong with a request before anything looks at it (H1), leaving a
//! connection clean behind an answer (H3), and ending it without losing the answer. Leaves keys and records to the service
//! that it serves, and header fields of the next hop to `upstream`. An HTTP/1 connection costs at most some
//! 32 KiB here, while it is idle far less; what HTTP/2 costs is bounded by its streams.

pub(crate) mod admission;
mod answer;
mod body;
mod connection;
mod current;
pub(crate) mod descriptors;
mod flow;
mod line;
mod places;
mod pulse;
mod refusal;
mod secured;
mod socket;
mod streams;
#[cfg(test)]
mod tests;
mod watch;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, HeaderValue, Request, Response};
use oncekey_tower::{BodyError, ResponseBody};
use tokio::net::{TcpListener, TcpStream};
use tower::Service;

pub(crate) use self::body::ClientBody;
use self::connection::{Client, Protocol, Server};
pub(crate) use self::current::{Current, Serving};
use self::places::Place;
pub(crate) use self::refusal::Refusals;
pub(crate) use self::secured::Secured;
use crate::drain::Drain;
use crate::tls::ListenerTls;

/// How long accepting rests when the process is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How the listener treats its connections.
#[derive(Clone, Debug)]
pub(crate) struct FrontOptions {
    /// Connections at a time.
    pub max_connections: usize,
    /// Requests at a time on one connection of HTTP/2.
    pub max_streams: u32,
    /// Longest head of a request, in bytes.
    pub max_header_bytes: usize,
    /// Most field lines of a request.
    pub max_headers: usize,
    /// How long a client may take for a request's head, from its first byte.
    pub head_timeout: Duration,
    /// How long nothing may come of a request's body.
    pub body_timeout: Duration,
    /// How long nothing may be taken of an answer.
    pub write_timeout: Duration,
    /// How long a connection may stay without a request.
    pub idle_timeout: Duration,
}

/// Where a request came from, in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct ClientAddress(HeaderValue);

impl ClientAddress {
    fn of(peer: IpAddr) -> Self {
        Self(HeaderValue::from_str(&peer.to_canonical().to_string()).expect("an IP address is visible ASCII"))
    }

    /// The address as it stands in `X-Forwarded-For`.
    pub(crate) fn as_value(&self) -> &HeaderValue {
        &self.0
    }
}

/// Serves the connections of `listener`, through TLS if that is given, by what is current, until `drain` ends them. Returns at
/// once; the tasks run under `drain`.
///
/// The service gets each request in origin form with a valid `Host`, its version as received, its client's address in the
/// extensions, and a streaming body. An error of the service becomes a problem (E6, E7); a panic closes the connection.
pub(crate) fn serve<S>(
    (listener, tls): (TcpListener, Option<Arc<ListenerTls>>),
    current: Current<S>,
    options: &FrontOptions,
    drain: &Drain,
) where
    S: Service<Request<ClientBody>, Response = Response<ResponseBody>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BodyError>,
{
    drain.spawn(accept((listener, tls), Server::new(current, options.clone(), drain.clone())));
}

async fn accept<S>((listener, tls): (TcpListener, Option<Arc<ListenerTls>>), server: Server<S>)
where
    S: Service<Request<ClientBody>, Response = Response<ResponseBody>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BodyError>,
{
    let stopping = server.drain.stopping();
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let place = server.places.take().await;
                    server.drain.spawn(connection(server.clone(), tls.clone(), (stream, peer), place));
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "no connection can be accepted for now");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = stopping.cancelled() => {}
    }
}

/// A connection, plain or through TLS, for as long as it has its place.
async fn connection<S>(
    server: Server<S>,
    tls: Option<Arc<ListenerTls>>,
    (stream, peer): (TcpStream, SocketAddr),
    place: Place,
) where
    S: Service<Request<ClientBody>, Response = Response<ResponseBody>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BodyError>,
{
    // Held back for the client's acknowledgement, an answer's last packet would come late.
    let _ = stream.set_nodelay(true);
    match tls {
        None => server.serve(Client { stream, peer, protocol: Protocol::AsItBegins, known: Extensions::new() }).await,
        // On the heap, so that plain connections, idle by the thousand, stay small.
        Some(tls) => Box::pin(secured::connection(server, tls, stream, peer)).await,
    }
    drop(place);
}

/// Whether accepting failed because the client had gone again; all else (no descriptors, no memory) lasts a while.
fn is_of_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
