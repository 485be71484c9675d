//! A client's connection through TLS: the handshake, the HTTP that it agrees on, and what it says of the client.

use std::net::SocketAddr;
use std::sync::Arc;

use http::{Extensions, Request, Response};
use oncekey_tower::{BodyError, ResponseBody};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tower::Service;

use super::ClientBody;
use super::connection::{Client, Protocol, Server};
use super::socket::Transport;
use crate::tls::{self, ListenerTls, Unreadable};

/// That a request came through TLS, in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Secured {
    certified_name: Result<Option<Arc<str>>, Unreadable>,
}

impl Secured {
    fn of(stream: &TlsStream<TcpStream>) -> Self {
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let name = certificate.map_or(Ok(None), tls::identity);
        Self { certified_name: name.map(|name| name.map(Arc::from)) }
    }

    /// The name in the certificate that the client gave, if it gave one; one that didn't verify has ended the connection by
    /// now.
    pub(crate) fn certified_name(&self) -> Result<Option<&str>, Unreadable> {
        self.certified_name.as_ref().map(Option::as_deref).map_err(|unreadable| *unreadable)
    }
}

impl Transport for TlsStream<TcpStream> {
    /// TLS would tell by the missing close_notify, but many a client doesn't look.
    fn close_by_reset(&self) {
        self.get_ref().0.close_by_reset();
    }
}

/// Establishes TLS and serves what comes through it. Given up if that takes too long, or accepting stops meanwhile: no request
/// is lost with it.
pub(super) async fn connection<S>(server: Server<S>, tls: Arc<ListenerTls>, stream: TcpStream, peer: SocketAddr)
where
    S: Service<Request<ClientBody>, Response = Response<ResponseBody>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BodyError>,
{
    match server.drain.stopping().run_until_cancelled(tls.accept(stream)).await {
        None => {}
        // Scanners and probes do this all day.
        Some(Err(error)) => tracing::debug!(%error, "TLS with a client wasn't established"),
        Some(Ok(stream)) => {
            let agreed = stream.get_ref().1.alpn_protocol();
            let protocol = if agreed == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 };
            let mut known = Extensions::new();
            known.insert(Secured::of(&stream));
            server.serve(Client { stream, peer, protocol, known }).await;
        }
    }
}
