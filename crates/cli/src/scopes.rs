//! The sources of scopes that a configuration can name (S1), and the readers that the layer gets for them. A source that
//! needs more than the request, keys or a handshake, is one that only the gateway can read.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderName, request};
use oncekey_core::{Scope, ScopeSource};
use oncekey_tower::{InvalidScope, ScopeReader};

use crate::front::Secured;

use crate::jwt::Tokens;

/// A source as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScopeFrom {
    /// What the request itself says.
    Request(ScopeSource),
    /// `jwt:CLAIM`: a claim of a verified bearer token. A name of the claim, dots and slashes included, not a path to it.
    Jwt(Box<str>),
    /// `client-cert`: the name in the certificate that the client gave and the listener verified.
    ClientCertificate,
}

const CLIENT_CERTIFICATE: &str = "client-cert";

impl FromStr for ScopeFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == CLIENT_CERTIFICATE => Ok(Self::ClientCertificate),
            Some(("jwt", claim)) if !claim.is_empty() && Scope::new(text, claim).is_ok() => Ok(Self::Jwt(claim.into())),
            Some(("jwt", _)) => Err(format!("`{text}` needs the name of a claim after the colon")),
            _ => match text.parse() {
                Ok(source) => Ok(Self::Request(source)),
                Err(error) => Err(format!("{error}")),
            },
        }
    }
}

impl fmt::Display for ScopeFrom {
    /// The source's name, as it stands in a record's identity.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(source) => source.fmt(f),
            Self::Jwt(claim) => write!(f, "jwt:{claim}"),
            Self::ClientCertificate => f.write_str(CLIENT_CERTIFICATE),
        }
    }
}

impl ScopeFrom {
    /// The request field that it is read from, if it is read from one: nobody may name that away (H2).
    pub(crate) fn field(&self) -> Option<HeaderName> {
        match self {
            Self::Request(ScopeSource::Header(name)) => Some(name.clone()),
            Self::Request(ScopeSource::Cookie(_)) => Some(COOKIE),
            Self::Request(ScopeSource::Authorization) | Self::Jwt(_) => Some(AUTHORIZATION),
            Self::Request(ScopeSource::Static(_)) | Self::ClientCertificate => None,
        }
    }

    /// Its reader where nothing is verified and nothing executed.
    pub(crate) fn unverified(&self) -> ScopeReader {
        match self {
            Self::Request(source) => source.clone().into(),
            Self::Jwt(_) | Self::ClientCertificate => ScopeReader::new(&self.to_string(), |_| Ok(None)),
        }
    }

    /// Its reader. `tokens` are there if any source needs them.
    pub(crate) fn reader(&self, tokens: Option<&Arc<Tokens>>) -> ScopeReader {
        match self {
            Self::Request(source) => source.clone().into(),
            Self::Jwt(claim) => {
                let tokens = tokens.expect("a `jwt:` source without `jwt.jwks` is refused at start");
                tokens.reader(&self.to_string(), claim)
            }
            Self::ClientCertificate => ScopeReader::new(CLIENT_CERTIFICATE, certified_name),
        }
    }
}

/// Only what the listener itself put beside the request counts: no field of it can claim a certificate.
fn certified_name(head: &request::Parts) -> Result<Option<String>, InvalidScope> {
    let Some(secured) = head.extensions.get::<Secured>() else { return Ok(None) };
    match secured.certified_name() {
        Ok(name) => Ok(name.map(str::to_owned)),
        Err(_) => Err(InvalidScope::because("Use a client certificate whose names can be read; this one's can't.")),
    }
}
