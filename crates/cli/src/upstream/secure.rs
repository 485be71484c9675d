//! What lies between TCP and HTTP: nothing for `http`, TLS for `https`. Whatever fails here failed before a byte of a request was sent (E6).
//!
//! Owns the bytes of a connection from here on, and which HTTP is spoken over them. Leaves deadlines to `connect`, who drops
//! the future.

use std::sync::Arc;

use http::uri::Scheme;
use oncekey_engine::NotExecuted;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::tls::{self, UpstreamTls};

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

/// How connections are secured; `None`: not at all.
pub(super) struct Security {
    tls: Option<Arc<UpstreamTls>>,
    /// Why the last handshake failed, until one succeeds: a certificate that isn't accepted is said once, not with each
    /// request.
    failing: Mutex<Option<String>>,
}

impl Security {
    pub(super) fn new(tls: Option<Arc<UpstreamTls>>) -> Self {
        Self { tls, failing: Mutex::default() }
    }

    /// The scheme of requests over such connections.
    pub(super) fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP }
    }

    /// Makes the connection ready for HTTP. `host` is the name that was connected to, without brackets.
    pub(super) async fn secure(
        &self,
        stream: TcpStream,
        host: &str,
        offer: Offer,
    ) -> Result<(Box<dyn Bytestream>, Negotiated), NotExecuted> {
        let Some(tls) = &self.tls else {
            let spoken = if offer == Offer::Two { Negotiated::Two } else { Negotiated::One };
            return Ok((Box::new(stream), spoken));
        };
        // On the heap, so that requests which need no handshake stay small.
        match Box::pin(tls.connect(stream, offer.protocols())).await {
            Ok(stream) => {
                self.failing.lock().take();
                let chosen = stream.get_ref().1.alpn_protocol();
                let spoken = offer.spoken(chosen)?;
                Ok((Box::new(stream), spoken))
            }
            Err(error) => {
                let why = tls::why(&error);
                self.tell(host, &why);
                Err(NotExecuted::because(format!("TLS with the upstream wasn't established: {why}")))
            }
        }
    }

    fn tell(&self, host: &str, why: &str) {
        let mut failing = self.failing.lock();
        if failing.as_deref() != Some(why) {
            tracing::error!(host, why, "TLS with the upstream wasn't established");
            *failing = Some(why.to_owned());
        }
    }
}

impl Offer {
    /// What ALPN offers.
    fn protocols(self) -> &'static [&'static [u8]] {
        match self {
            Self::One => &[b"http/1.1"],
            Self::Two => &[b"h2"],
            Self::Either => &[b"h2", b"http/1.1"],
        }
    }

    /// What is spoken after this choice. A server that knows no ALPN speaks HTTP/1.1.
    fn spoken(self, chosen: Option<&[u8]>) -> Result<Negotiated, NotExecuted> {
        match chosen {
            Some(b"h2") => Ok(Negotiated::Two),
            _ if self == Self::Two => Err(NotExecuted::because("the upstream doesn't speak HTTP/2")),
            _ => Ok(Negotiated::One),
        }
    }
}
