//! Certificates, and both ends of TLS: an authority of the test's own, what it issues, whom a client trusts, and a server
//! in front of any plain one.

mod front;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub use rcgen;
pub use rustls;

pub use self::front::TlsFront;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// An authority that nobody knows but the test.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its private key, in PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate, and what is put behind it.
    pub cert: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// Makes one with a key of its own.
    ///
    /// # Panics
    /// When no key can be made.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key can be made");
        Self(CertifiedIssuer::self_signed(params, key).expect("the parameters are right"))
    }

    /// Its own certificate, in PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for these names, DNS names and IP addresses, good for servers and clients.
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.issue_with(names, |_| {})
    }

    /// A certificate that is otherwise as the test wants it.
    ///
    /// # Panics
    /// When it can't be made so.
    pub fn issue_with(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("the test gives valid names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        // Strict clients, newer Pythons among them, want to be told whose it is.
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let key = KeyPair::generate().expect("a key can be made");
        let cert = params.signed_by(&key, &self.0).expect("the parameters are right");
        Issued { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// An expired certificate.
    pub fn issue_expired(&self, names: &[&str]) -> Issued {
        self.issue_with(names, |params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        })
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("its certificate is an authority's");
        roots
    }

    /// A server's configuration that shows `issued`. With `clients`, only clients with a certificate of that authority are
    /// served.
    ///
    /// # Panics
    /// When certificate and key don't belong together.
    pub fn server(issued: &Issued, clients: Option<&Self>) -> ServerConfig {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("the provider has both versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(clients.roots()), provider());
                builder.with_client_cert_verifier(verifier.build().expect("there is an authority"))
            }
        };
        builder.with_single_cert(issued.chain(), issued.private_key()).expect("they belong together")
    }

    /// A client that trusts this authority, for a server of that name.
    ///
    /// # Panics
    /// When it is no name.
    pub fn trusted_for(&self, name: &str) -> Trust {
        self.trust(name, None)
    }

    /// A client that trusts this authority, and shows a certificate.
    ///
    /// # Panics
    /// When it is no name, or certificate and key don't belong together.
    pub fn trusted_by(&self, client: &Issued, name: &str) -> Trust {
        self.trust(name, Some(client))
    }

    fn trust(&self, name: &str, client: Option<&Issued>) -> Trust {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("the provider has both versions")
            .with_root_certificates(self.roots());
        let config = match client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                builder.with_client_auth_cert(client.chain(), client.private_key()).expect("they belong together")
            }
        };
        let name = ServerName::try_from(name.to_owned()).expect("the test gives a valid name");
        Trust { config: Arc::new(config), name }
    }
}

impl Issued {
    /// Writes `NAME.pem` and `NAME.key` into a directory, each at once, and gives their paths.
    pub fn write(&self, directory: &Path, name: &str) -> io::Result<(PathBuf, PathBuf)> {
        let (cert, key) = (directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")));
        std::fs::write(&cert, &self.cert)?;
        std::fs::write(&key, &self.key)?;
        Ok((cert, key))
    }

    /// The certificate and what stands behind it.
    ///
    /// # Panics
    /// When the test has put something else there.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        let chain: Result<_, _> = CertificateDer::pem_slice_iter(self.cert.as_bytes()).collect();
        chain.expect("certificates in PEM")
    }

    fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("a key in PEM")
    }
}

/// Whom a client trusts, and what it shows. Each connection of it is a handshake of its own or resumes an earlier one.
#[derive(Clone, Debug)]
pub struct Trust {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Trust {
    /// With these protocols offered by ALPN.
    #[must_use]
    pub fn offering(self, protocols: &[&[u8]]) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Self { config: Arc::new(config), ..self }
    }

    /// With a full handshake for each connection.
    #[must_use]
    pub fn never_resuming(self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = rustls::client::Resumption::disabled();
        Self { config: Arc::new(config), ..self }
    }

    /// Establishes TLS on a connection.
    pub async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsConnector::from(Arc::clone(&self.config)).connect(self.name.clone(), stream).await
    }
}
