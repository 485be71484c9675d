//! What lies between TCP and HTTP: nothing for `http`. Whatever fails here failed before a byte of a request was sent (E6).
//!
//! Owns the bytes of a connection from here on, and which HTTP is spoken over them. Leaves deadlines to `connect`, who drops
//! the future.

use http::uri::Scheme;
use oncekey_engine::NotExecuted;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The bytes of a connection, both ways.
pub(super) trait Bytestream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytestream for T {}

/// Which versions of HTTP a new connection may speak. Over TLS it is what ALPN offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// HTTP/1.1 only.
    One,
    /// HTTP/2 only: where the upstream doesn't choose it, there is no connection.
    Two,
    /// The upstream chooses. Without TLS it can't, and HTTP/1.1 is spoken.
    Either,
}

/// Which HTTP a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Negotiated {
    One,
    Two,
}

/// How connections are secured.
pub(super) struct Security;

impl Security {
    /// The scheme of requests over such connections.
    #[expect(clippy::unused_self, reason = "with TLS it depends on the kind of security")]
    pub(super) fn scheme(&self) -> Scheme {
        Scheme::HTTP
    }

    /// Makes the connection ready for HTTP. `host` is the name that was connected to, without brackets.
    #[expect(clippy::unused_async, reason = "a handshake waits for the other side")]
    pub(super) async fn secure(
        &self,
        stream: TcpStream,
        _host: &str,
        offer: Offer,
    ) -> Result<(Box<dyn Bytestream>, Negotiated), NotExecuted> {
        let spoken = if offer == Offer::Two { Negotiated::Two } else { Negotiated::One };
        Ok((Box::new(stream), spoken))
    }
}
