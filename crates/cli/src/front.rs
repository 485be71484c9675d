//! The listener of the gateway: HTTP/1.1 and 1.0 from clients.
//!
//! Owns connections: accepting them, refusing what is wrong with a request before anything looks at it (H1), leaving a
//! connection clean behind an answer (H3), and ending it without losing the answer. Leaves keys and records to the service
//! that it serves, and header fields of the next hop to `upstream`. A connection costs at most some 32 KiB here, while it
//! is idle far less.

pub(crate) mod admission;
mod answer;
mod body;
mod current;
pub(crate) mod descriptors;
mod line;
mod refusal;
mod socket;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use oncekey_engine::fault;
use oncekey_tower::{BodyError, ResponseBody};
use tokio::net::{TcpListener, TcpStream};
use tower::Service;

pub(crate) use self::body::ClientBody;
pub(crate) use self::current::{Current, Serving};
use self::line::Line;
pub(crate) use self::refusal::Refusals;
use self::socket::Socket;
use crate::drain::Drain;

/// Most that one connection buffers each way, and the longest head of a request, in bytes.
pub(crate) const BUFFER: usize = 16 * 1024;

/// How long accepting rests when the process is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How the listener treats its connections.
#[derive(Clone, Debug)]
pub(crate) struct FrontOptions {
    /// How long a client may take for a request's head, and a connection may stay idle between two.
    pub head_timeout: Duration,
}

impl Default for FrontOptions {
    fn default() -> Self {
        Self { head_timeout: Duration::from_mins(1) }
    }
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

/// Serves the connections of `listener` by what is current, until `drain` ends them. Returns at once; the tasks run under `drain`.
///
/// The service gets each request in origin form with a valid `Host`, its version as received, its client's address in the
/// extensions, and a streaming body. An error of the service becomes a problem (E6, E7); a panic closes the connection.
pub(crate) fn serve<S>(listener: TcpListener, current: Current<S>, options: &FrontOptions, drain: &Drain)
where
    S: Service<Request<ClientBody>, Response = Response<ResponseBody>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BodyError>,
{
    let mut http = Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(options.head_timeout)
        .max_buf_size(BUFFER)
        // A client may end its side once the request is sent; it still gets the answer (E3).
        .half_close(!fault::broken("tie_to_client"));
    drain.spawn(accept(listener, http, current, drain.clone()));
}

async fn accept<S>(listener: TcpListener, http: Builder, current: Current<S>, drain: Drain)
where
    S: Service<Request<ClientBody>, Response = Response<ResponseBody>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BodyError>,
{
    let stopping = drain.stopping();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopping.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => drain.spawn(connection(stream, peer, http.clone(), (current.clone(), drain.clone()))),
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted for now");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether accepting failed because the client had gone again; all else (no descriptors, no memory) lasts a while.
fn is_of_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connection<S>(stream: TcpStream, peer: SocketAddr, http: Builder, (current, drain): (Current<S>, Drain))
where
    S: Service<Request<ClientBody>, Response = Response<ResponseBody>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BodyError>,
{
    // Held back for the client's acknowledgement, an answer's last packet would come late.
    let _ = stream.set_nodelay(true);
    let line = Arc::new(Line::default());
    let client = ClientAddress::of(peer.ip());
    let socket = TokioIo::new(Socket::new(stream, Arc::clone(&line)));
    let shared = Arc::clone(&line);
    let answer =
        service_fn(move |request| answer::answer(request, current.clone(), client.clone(), Arc::clone(&shared)));
    let mut http = Box::pin(http.serve_connection(socket, answer).with_upgrades());
    let stopping = drain.stopping();
    // Its errors are the client's: a head that can't be read, a connection that broke. hyper has answered what it could.
    let ended = tokio::select! {
        biased;
        _ = http.as_mut() => true,
        () = stopping.cancelled() => {
            http.as_mut().graceful_shutdown();
            false
        }
    };
    let rest = async move {
        if !ended {
            let _ = http.as_mut().await;
        }
        drop(http);
        line.close_unused_upgrade().await;
    };
    tokio::select! {
        biased;
        () = rest => {}
        () = drain.cut() => {}
    }
}
