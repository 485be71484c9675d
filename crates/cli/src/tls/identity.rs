//! Who a client certificate says that it is: the scope source `client-cert` (S1).
//!
//! What stays the same when a certificate is renewed is the name that its authority gave, so neither its key nor its serial
//! number are part of it. Names of different kinds never meet: each begins with its kind.

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::distinguished_name;

/// The name of a verified certificate: `uri:` and its first URI, else `dns:` and its first DNS name in lower case, else
/// `dn:` and its subject by RFC 4514. `Ok(None)` if it has none of them, `Err` if the one that counts can't be read.
pub(crate) fn identity(certificate: &CertificateDer<'_>) -> Result<Option<String>, Unreadable> {
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|_| Unreadable)?;
    let names = certificate.subject_alternative_name().map_err(|_| Unreadable)?;
    let names = names.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
    if names.iter().any(|name| matches!(name, GeneralName::Invalid(..))) {
        return Err(Unreadable);
    }
    let uri = names.iter().find_map(|name| match name {
        GeneralName::URI(uri) => Some(format!("uri:{uri}")),
        _ => None,
    });
    let dns = || {
        names.iter().find_map(|name| match name {
            GeneralName::DNSName(name) => Some(format!("dns:{}", name.to_ascii_lowercase())),
            _ => None,
        })
    };
    let subject = || {
        let text = distinguished_name::text(certificate.subject());
        (!text.is_empty()).then(|| format!("dn:{text}"))
    };
    Ok(uri.or_else(dns).or_else(subject))
}

/// A certificate whose names can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;
