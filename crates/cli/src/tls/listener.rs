//! The listener's side: its certificate, and the certificates that it asks its clients for.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::live::{Checked, Live, Material, Sources};
use super::pem::{Source, certified_key};
use super::{Finding, provider};
use crate::config::TlsConfig;

/// How long a client may take for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Most plain text that waits to be encrypted, in bytes, a connection.
const BUFFER: usize = 16 * 1024;

/// What the listener offers, the first choice first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// TLS as the listener speaks it.
pub(crate) struct ListenerTls(pub(super) Live<ServerConfig>);

impl ListenerTls {
    /// Reads the files, blocking. Gives what is doubtful about them, too.
    pub(crate) fn load(config: &TlsConfig) -> Result<(Self, Vec<Finding>), Finding> {
        let sources = Sources {
            cert: Some(Source::new("tls.cert", &config.cert)),
            key: Some(Source::new("tls.key", &config.key)),
            ca: config.client_ca.as_deref().map(|path| Source::new("client_cert.ca", path)),
        };
        let (live, doubts) = Live::load(sources, server_config)?;
        Ok((Self(live), doubts))
    }

    pub(super) fn check(&self) -> Checked {
        self.0.check()
    }

    pub(super) fn take_over(&self, fresh: &Self) {
        self.0.take_over(&fresh.0);
    }

    /// Establishes TLS on an accepted connection, within ten seconds. Dropping it closes the connection.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let accepted = TlsAcceptor::from(self.0.current())
            .accept_with(stream, |connection| connection.set_buffer_limit(Some(BUFFER)));
        let timed = tokio::time::timeout(HANDSHAKE, accepted).await;
        timed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl fmt::Debug for ListenerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListenerTls")
    }
}

fn server_config(material: &Material) -> Result<ServerConfig, Finding> {
    let (Some(cert), Some(key)) = (&material.cert, &material.key) else {
        unreachable!("a listener's sources name both");
    };
    let certified = certified_key(cert, key)?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites of TLS 1.2 and 1.3");
    let builder = match &material.ca {
        None => builder.with_no_client_auth(),
        Some(ca) => builder.with_client_cert_verifier(verifier(ca.authorities()?)),
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = PROTOCOLS.iter().map(|protocol| protocol.to_vec()).collect();
    if material.ca.is_some() {
        // A resumed session isn't asked for its certificate again: it would outlive the certificate and its authority.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(config)
}

/// Asks for a certificate and goes on without one: which requests need it is each route's to say (S2). One that is given
/// must be right.
fn verifier(authorities: RootCertStore) -> Arc<dyn rustls::server::danger::ClientCertVerifier> {
    WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider())
        .allow_unauthenticated()
        .build()
        .expect("there is an authority, and no list of revoked certificates to be wrong")
}
