//! How connections are encrypted: one provider, passed explicitly, and the certificate checks of libpq's `sslmode`.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::{Roots, Verify};
use crate::error::Failure;

/// The connector for a way to verify. Reads the file of roots, if one is named.
pub(crate) fn connector(verify: &Verify) -> Result<MakeRustlsConnect, Failure> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match verify {
        Verify::Nothing => Arc::new(Lenient { provider: provider.clone(), authority: None }),
        Verify::Authority(roots) => {
            let authority = Some(verifier(roots, &provider)?);
            Arc::new(Lenient { provider: provider.clone(), authority })
        }
        Verify::Host(roots) => verifier(roots, &provider)?,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Failure::tls)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn verifier(roots: &Roots, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, Failure> {
    let path = match roots {
        Roots::System => return Ok(Arc::new(Verifier::new(provider.clone()).map_err(Failure::tls)?)),
        Roots::File(path) => path,
    };
    let unreadable = |what: String| Failure::Roots { path: path.clone(), what };
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))? {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        store.add(certificate).map_err(|error| unreadable(error.to_string()))?;
    }
    if store.is_empty() {
        return Err(unreadable("it holds no certificate".to_owned()));
    }
    Ok(WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone()).build().map_err(Failure::tls)?)
}

/// What `require` and `verify-ca` ask for: less than that the certificate is the host's. The handshake's own signatures are
/// checked all the same.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    /// Who must have signed the certificate; `None`: anyone.
    authority: Option<Arc<dyn ServerCertVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        match authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is looked at last: everything else about the certificate is in order.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
