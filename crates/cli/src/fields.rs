//! Header fields at a hop (H2): which stay on it, which can't be named away, and what a proxy adds.
//!
//! Owns the fields of RFC 9110, section 7.6. Leaves framing to the sender of a message, and oncekey's own fields (`Oncekey-*`,
//! the key, `Idempotent-Replayed`) to the layer.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, TE, UPGRADE, VIA};
use http::{Version, header};

/// Fields that mean something between two neighbours only. `Trailer` is not among them: it announces what is passed on.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-authentication-info"),
    TE,
    header::TRANSFER_ENCODING,
    UPGRADE,
];

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The fields that `Connection` can't name away: a client must not be able to send a request whose key, scope or framing the
/// gateway sees and the upstream doesn't.
#[derive(Clone, Debug, Default)]
pub(crate) struct Protected(Vec<HeaderName>);

impl Protected {
    /// Protects the key and scope fields of all routes, beside those that are always protected.
    pub(crate) fn new(fields: impl IntoIterator<Item = HeaderName>) -> Self {
        Self(fields.into_iter().collect())
    }

    fn holds(&self, name: &HeaderName) -> bool {
        [HOST, header::CONTENT_LENGTH, header::CONTENT_TYPE, header::AUTHORIZATION].contains(name)
            || name.as_str().starts_with("x-forwarded-")
            || name.as_str().starts_with("oncekey-")
            || name == "idempotency-key"
            || self.0.contains(name)
    }
}

/// Removes what stays on this hop: the hop-by-hop fields and those that `Connection` names.
pub(crate) fn end_hop(headers: &mut HeaderMap, protected: &Protected) {
    let named: Vec<HeaderName> = named_by_connection(headers).filter(|name| !protected.holds(name)).collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// The fields that `Connection` names, without its own words (`close`, `keep-alive`, `upgrade`), which name no field or one
/// that is removed anyway.
fn named_by_connection(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let tokens = headers.get_all(CONNECTION).into_iter().flat_map(tokens);
    let own = |token: &&[u8]| [&b"close"[..], b"keep-alive", b"upgrade"].iter().any(|w| token.eq_ignore_ascii_case(w));
    tokens.filter(move |token| !own(token)).filter_map(|token| HeaderName::from_bytes(token).ok())
}

/// The members of a comma-separated list, without the white space around them.
pub(crate) fn tokens(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

/// Whether a list holds `token`, in any case.
pub(crate) fn lists(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    headers.get_all(name).into_iter().flat_map(tokens).any(|found| found.eq_ignore_ascii_case(token.as_bytes()))
}

/// Says in `Via` that the message, received as `version`, passed through here.
pub(crate) fn add_via(headers: &mut HeaderMap, version: Version) {
    let own = match version {
        Version::HTTP_10 => "1.0 oncekey",
        Version::HTTP_2 => "2.0 oncekey",
        _ => "1.1 oncekey",
    };
    extend_list(headers, VIA, &HeaderValue::from_static(own));
}

/// Says whom the request came from, and by which scheme: `X-Forwarded-For` grows, `-Proto` and `-Host` are set where nobody in front has.
pub(crate) fn add_forwarded(headers: &mut HeaderMap, client: Option<&HeaderValue>, scheme: &'static str) {
    if let Some(client) = client {
        extend_list(headers, FORWARDED_FOR, client);
    }
    if !headers.contains_key(FORWARDED_PROTO) {
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static(scheme));
    }
    if !headers.contains_key(FORWARDED_HOST)
        && let Some(host) = headers.get(HOST).cloned()
    {
        headers.insert(FORWARDED_HOST, host);
    }
}

/// Adds a member to a list field, as one line: many a reader of `X-Forwarded-For` looks at a single line only.
fn extend_list(headers: &mut HeaderMap, name: HeaderName, member: &HeaderValue) {
    let mut joined = Vec::new();
    for line in headers.get_all(&name) {
        joined.extend_from_slice(line.as_bytes());
        joined.extend_from_slice(b", ");
    }
    let value = if joined.is_empty() {
        member.clone()
    } else {
        joined.extend_from_slice(member.as_bytes());
        HeaderValue::from_maybe_shared(Bytes::from(joined)).expect("field values joined by a comma are a field value")
    };
    headers.insert(name, value);
}
