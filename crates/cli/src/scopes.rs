//! The sources of scopes that a configuration can name (S1), and the readers that the layer gets for them. A source that
//! needs more than the request, keys or a handshake, is one that only the gateway can read.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use http::HeaderName;
use http::header::{AUTHORIZATION, COOKIE};
use oncekey_core::{Scope, ScopeSource};
use oncekey_tower::ScopeReader;

use crate::jwt::Tokens;

/// A source as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScopeFrom {
    /// What the request itself says.
    Request(ScopeSource),
    /// `jwt:CLAIM`: a claim of a verified bearer token. A name of the claim, dots and slashes included, not a path to it.
    Jwt(Box<str>),
}

impl FromStr for ScopeFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "client-cert" => Err(format!("`{text}` is not in this version")),
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
            Self::Request(ScopeSource::Static(_)) => None,
        }
    }

    /// Its reader where nothing is verified and nothing executed.
    pub(crate) fn unverified(&self) -> ScopeReader {
        match self {
            Self::Request(source) => source.clone().into(),
            Self::Jwt(_) => ScopeReader::new(&self.to_string(), |_| Ok(None)),
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
        }
    }
}
