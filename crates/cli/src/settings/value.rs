//! A value once it is known to suit its setting.

use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderMap, HeaderName, Method};
use oncekey_core::Namespace;
use oncekey_core::fingerprint::Pointer;
use oncekey_core::policy::StatusSet;

use super::address::{SecretRef, StoreUrl, Upstream};
use super::probe_headers::ProbeHeaders;
use super::probe_url::ProbeUrl;
use crate::jwt::Jwks;
use crate::scopes::ScopeFrom;

/// A value, by what it is for the program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A duration.
    Duration(Duration),
    /// A number, of bytes or of anything else.
    Count(u64),
    /// True or false.
    Flag(bool),
    /// One of the words that the setting allows.
    Word(&'static str),
    /// Any other text.
    Text(String),
    /// The namespace.
    Namespace(Namespace),
    /// Where to listen.
    Address(SocketAddr),
    /// The proxied API.
    Upstream(Upstream),
    /// Which store.
    Store(StoreUrl),
    /// Where a secret is kept.
    Secret(SecretRef),
    /// A header's name.
    Header(HeaderName),
    /// Names of headers.
    Headers(Vec<HeaderName>),
    /// Pointers into JSON.
    Pointers(Vec<Pointer>),
    /// Header fields.
    Fields(HeaderMap),
    /// Texts, at least one.
    Texts(Vec<String>),
    /// Where a key set is.
    Jwks(Jwks),
    /// Where to ask about unknown outcomes.
    ProbeUrl(ProbeUrl),
    /// Header fields of a probe, with the places of their secrets.
    ProbeHeaders(ProbeHeaders),
    /// Sources of the scope, in order.
    Scope(Vec<ScopeFrom>),
    /// Status codes.
    Statuses(StatusSet),
    /// Methods.
    Methods(Vec<Method>),
}
