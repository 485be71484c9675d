//! Whose key it is: the scope, and the source it was read from (rules S1–S3). Reading it out of a request is the HTTP
//! layer's work.

use std::fmt;
use std::str::FromStr;

use http::HeaderName;
use sha2::{Digest, Sha256};

use crate::field_name::Spelled;

/// Where a scope value is read from (S1), as far as the request alone says it. What is verified first (`jwt:CLAIM`, by
/// keys; `client-cert`, by a TLS handshake) belongs to whoever verifies it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ScopeSource {
    /// `header:NAME`: the value of a request header, believed as sent (S4).
    Header(HeaderName),
    /// `cookie:NAME`: SHA-256 of the value of a cookie, a credential too.
    Cookie(Box<str>),
    /// `authorization`: SHA-256 of the `Authorization` field, so that the credential itself is in no record.
    Authorization,
    /// `static:VALUE`: one scope for all requests of the route.
    Static(Box<str>),
}

/// A scope source that can't be used as written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeSourceError {
    /// Not a source at all.
    #[error("`{0}` is no scope source")]
    Unknown(String),
    /// `header:` or `cookie:` without a name, or `static:` without a usable value.
    #[error("`{0}` needs a valid name or value after the colon")]
    Incomplete(String),
}

impl FromStr for ScopeSource {
    type Err = ScopeSourceError;

    fn from_str(text: &str) -> Result<Self, ScopeSourceError> {
        let incomplete = || ScopeSourceError::Incomplete(text.to_owned());
        match text.split_once(':') {
            None if text == "authorization" => Ok(Self::Authorization),
            Some(("header", name)) => {
                HeaderName::from_bytes(name.as_bytes()).map(Self::Header).map_err(|_| incomplete())
            }
            Some(("cookie", name)) if is_token(name) => Ok(Self::Cookie(name.into())),
            Some(("cookie", _)) => Err(incomplete()),
            Some(("static", value)) => match Scope::new("static", value) {
                Ok(_) => Ok(Self::Static(value.into())),
                Err(_) => Err(incomplete()),
            },
            _ => Err(ScopeSourceError::Unknown(text.to_owned())),
        }
    }
}

/// Whether a text can name a cookie: a token of RFC 9110.
fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

impl fmt::Display for ScopeSource {
    /// The source as it stands in a record's identity. A header is named in one spelling (`X-Account-Id`) however the
    /// configuration spells it, since header names don't know case and nodes must agree.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{}", Spelled(name)),
            Self::Cookie(name) => write!(f, "cookie:{name}"),
            Self::Authorization => f.write_str("authorization"),
            Self::Static(_) => f.write_str("static"),
        }
    }
}

/// A scope: whose key it is, and which source said so. Both are part of a record's identity (S1).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    source: Box<str>,
    value: Box<str>,
}

/// A scope value that can't be used (400 `scope-invalid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// An empty value is no value (S2).
    #[error("the scope is empty")]
    Empty,
    /// More than 255 characters (S2).
    #[error("the scope is longer than 255 characters")]
    TooLong,
    /// A control character, or bytes that are not UTF-8.
    #[error("the scope holds a control character or is not UTF-8")]
    Character,
}

impl Scope {
    /// A scope from the source's name and the value it yielded; surrounding white space is the caller's to trim.
    pub fn new(source: &str, value: &str) -> Result<Self, ScopeError> {
        if value.is_empty() {
            return Err(ScopeError::Empty);
        }
        if value.chars().count() > 255 {
            return Err(ScopeError::TooLong);
        }
        if value.chars().any(char::is_control) {
            return Err(ScopeError::Character);
        }
        Ok(Self { source: source.into(), value: value.into() })
    }

    /// The value that stands for a credential, so that the credential itself is in no record: its SHA-256, in hex
    /// (S1, S4).
    pub fn digest(credential: &[u8]) -> String {
        let digest = Sha256::digest(credential);
        digest.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
    }

    /// The name of the source, as [`ScopeSource`] displays it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The value: an account, a merchant, a user.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for Scope {
    /// Names the source only; the value may identify a person (P2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({})", self.source)
    }
}
