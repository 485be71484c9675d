//! PEM files: read with a bound, and told apart by what is wrong with them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oncekey_store::{Clock, SystemClock};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{Error, InconsistentKeys, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::{Finding, provider};

/// The largest file that is read: a system's whole bundle of authorities has a quarter of it.
const LARGEST: u64 = 1024 * 1024;

/// A file that a setting names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) setting: &'static str,
    pub(super) path: PathBuf,
}

/// A file's content at one moment. It may be a private key: nothing shows it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pem {
    source: Source,
    bytes: Vec<u8>,
}

impl Source {
    pub(super) fn new(setting: &'static str, path: &Path) -> Self {
        Self { setting, path: path.to_owned() }
    }

    /// Reads the file, blocking.
    pub(super) fn read(&self) -> Result<Pem, Finding> {
        let mut bytes = Vec::new();
        let read = File::open(&self.path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
        match read {
            Err(error) => Err(Finding { absent: true, ..self.finding(format_args!("can't be read: {error}")) }),
            Ok(_) if bytes.len() as u64 > LARGEST => Err(self.finding(format_args!("is larger than 1 MiB"))),
            Ok(_) => Ok(Pem { source: self.clone(), bytes }),
        }
    }

    fn finding(&self, what: impl std::fmt::Display) -> Finding {
        Finding { setting: self.setting, text: format!("{}: {what}", self.path.display()), absent: false }
    }
}

impl Pem {
    fn wrong(&self, what: impl std::fmt::Display) -> Finding {
        self.source.finding(what)
    }

    fn holds(&self, text: &str) -> bool {
        self.bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    /// Why nothing that was looked for is here.
    fn without(&self, wanted: &str) -> Finding {
        if !self.holds("-----BEGIN ") {
            self.wrong(format_args!("holds no {wanted}; it isn't PEM (-----BEGIN …), which is needed"))
        } else if self.holds("-----BEGIN CERTIFICATE-----") {
            self.wrong(format_args!("holds a certificate and no {wanted}"))
        } else if self.holds("PRIVATE KEY-----") {
            self.wrong(format_args!("holds a private key and no {wanted}"))
        } else {
            self.wrong(format_args!("holds no {wanted}"))
        }
    }

    /// The certificates in their order; at least one, and all of them readable.
    pub(super) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Finding> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        let certificates = read.map_err(|error| self.wrong(broken(&error)))?;
        if certificates.is_empty() {
            return Err(self.without("certificate"));
        }
        for (number, certificate) in (1..).zip(&certificates) {
            if X509Certificate::from_der(certificate).is_err() {
                return Err(self.wrong(format_args!("its certificate {number} can't be read")));
            }
        }
        Ok(certificates)
    }

    /// The authorities that certificates are checked against.
    pub(super) fn authorities(&self) -> Result<RootCertStore, Finding> {
        let mut roots = RootCertStore::empty();
        for (number, certificate) in (1..).zip(self.certificates()?) {
            let unusable = |error| self.wrong(format_args!("its certificate {number} can't be an authority: {error}"));
            roots.add(certificate).map_err(unusable)?;
        }
        Ok(roots)
    }

    fn key(&self) -> Result<Arc<dyn SigningKey>, Finding> {
        if self.holds("-----BEGIN ENCRYPTED PRIVATE KEY-----") || self.holds("Proc-Type: 4,ENCRYPTED") {
            let text =
                "its private key is encrypted; one without a passphrase is needed (openssl pkey -in OLD -out NEW)";
            return Err(self.wrong(text));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|error| match error {
            PemError::NoItemsFound => self.without("private key"),
            error => self.wrong(broken(&error)),
        })?;
        let unusable = |_| self.wrong("its private key can't be used; RSA from 2048 bits, ECDSA and Ed25519 can");
        provider().key_provider.load_private_key(key).map_err(unusable)
    }

    /// What is doubtful about these certificates. `chain`: each but the last should be issued by the next.
    pub(super) fn doubts(&self, chain: bool) -> Vec<Finding> {
        let Ok(certificates) = self.certificates() else { return Vec::new() };
        let parsed = certificates.iter().filter_map(|der| X509Certificate::from_der(der).ok());
        let parsed: Vec<_> = parsed.map(|(_, certificate)| certificate).collect();
        let now = SystemClock.now().as_micros() / 1_000_000;
        let mut doubts = Vec::new();
        for (number, certificate) in (1..).zip(&parsed) {
            let validity = certificate.validity();
            if validity.not_after.timestamp() < now {
                doubts.push(self.wrong(format_args!("its certificate {number} expired on {}", validity.not_after)));
            } else if validity.not_before.timestamp() > now {
                let text = format_args!("its certificate {number} is not valid before {}", validity.not_before);
                doubts.push(self.wrong(text));
            }
        }
        for (number, pair) in (1..).zip(parsed.windows(2)).filter(|_| chain) {
            if pair[0].issuer() != pair[1].subject() {
                let text =
                    format_args!("its certificate {number} isn't issued by the next one; clients may refuse both");
                doubts.push(self.wrong(text));
            }
        }
        doubts
    }
}

/// A certificate with the chain behind it, and its key.
pub(super) fn certified_key(cert: &Pem, key: &Pem) -> Result<Arc<CertifiedKey>, Finding> {
    let (chain, signing) = (cert.certificates()?, key.key()?);
    let belongs = |chain: Vec<CertificateDer<'static>>| {
        let matched = CertifiedKey::new(chain, Arc::clone(&signing)).keys_match();
        !matches!(matched, Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)))
    };
    if belongs(chain[..1].to_vec()) {
        return Ok(Arc::new(CertifiedKey::new(chain, signing)));
    }
    let elsewhere = chain.iter().skip(1).any(|certificate| belongs(vec![certificate.clone()]));
    Err(if elsewhere {
        cert.wrong("its certificates stand in the wrong order: the key's own must be the first, its issuer the next")
    } else {
        key.wrong(format_args!("its private key isn't that of the certificate in {}", cert.source.path.display()))
    })
}

fn broken(error: &PemError) -> String {
    match error {
        PemError::MissingSectionEnd { .. } => "a section has no -----END line".to_owned(),
        PemError::IllegalSectionStart { .. } => "a section's -----BEGIN line is damaged".to_owned(),
        _ => "a section isn't base64".to_owned(),
    }
}
