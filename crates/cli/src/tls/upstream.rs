//! The upstream's side: whom to believe that it is the upstream, and what to show it.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ClientConfig, Error};
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::live::{Checked, Live, Material, Sources};
use super::pem::{Pem, Source, certified_key};
use super::{Finding, provider};
use crate::config::UpstreamTlsConfig;

/// TLS as it is spoken to the upstream.
pub(crate) struct UpstreamTls {
    pub(super) live: Live<ClientConfig>,
    name: ServerName<'static>,
}

impl UpstreamTls {
    /// Reads the files, blocking. Gives what is doubtful about them, too.
    pub(crate) fn load(config: &UpstreamTlsConfig) -> Result<(Self, Vec<Finding>), Finding> {
        let sources = Sources {
            cert: config.cert.as_deref().map(|path| Source::new("upstream_tls.cert", path)),
            key: config.key.as_deref().map(|path| Source::new("upstream_tls.key", path)),
            ca: config.ca.as_deref().map(|path| Source::new("upstream_tls.ca", path)),
        };
        let name = ServerName::try_from(config.server_name.clone()).map_err(|_| Finding {
            setting: "upstream",
            text: format!(
                "{} is no name that a certificate can hold; name one in upstream_tls.server_name",
                config.server_name
            ),
            absent: false,
        })?;
        let (live, doubts) = Live::load(sources, client_config)?;
        Ok((Self { live, name }, doubts))
    }

    pub(super) fn check(&self) -> Checked {
        self.live.check()
    }

    /// Establishes TLS on a connection, and offers these protocols, the first choice first. An error proves that nothing but
    /// the handshake was sent (E6). Dropping it closes the connection.
    pub(crate) async fn connect(&self, stream: TcpStream, protocols: &[&[u8]]) -> io::Result<TlsStream<TcpStream>> {
        let protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let connector = TlsConnector::from(self.live.current());
        connector.with_alpn(protocols).connect(self.name.clone(), stream).await
    }
}

impl fmt::Debug for UpstreamTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpstreamTls({:?})", self.name)
    }
}

fn client_config(material: &Material) -> Result<ClientConfig, Finding> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites of TLS 1.2 and 1.3")
        .dangerous() // The name of the method; what follows are the usual verifiers.
        .with_custom_certificate_verifier(verifier(material.ca.as_ref())?);
    Ok(match (&material.cert, &material.key) {
        (Some(cert), Some(key)) => {
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified_key(cert, key)?)))
        }
        _ => builder.with_no_client_auth(),
    })
}

/// Verifies by one's own authorities, which replace the system's, or by those.
fn verifier(ca: Option<&Pem>) -> Result<Arc<dyn ServerCertVerifier>, Finding> {
    let Some(ca) = ca else {
        let verifier = Verifier::new(provider()).map_err(|error| Finding {
            setting: "upstream_tls.ca",
            text: format!(
                "the system has no certificate authorities to check https upstreams by ({error}); name yours here"
            ),
            absent: false,
        })?;
        return Ok(Arc::new(verifier));
    };
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(ca.authorities()?), provider()).build();
    Ok(verifier.expect("there is an authority, and no list of revoked certificates to be wrong"))
}

/// Why TLS was not established, for the one who has to change something.
pub(crate) fn why(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    let certificate = match cause {
        Some(Error::InvalidCertificate(certificate)) => certificate,
        Some(Error::AlertReceived(alert)) => return format!("the upstream refused the handshake ({alert:?})"),
        Some(error) => return error.to_string(),
        None => return error.to_string(),
    };
    let what = match certificate {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "is not valid yet",
        CertificateError::UnknownIssuer => "is of an authority that isn't known (upstream_tls.ca names one)",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "is for another name (upstream_tls.server_name names the one to expect)"
        }
        _ => "can't be accepted",
    };
    format!("its certificate {what}: {certificate}")
}
