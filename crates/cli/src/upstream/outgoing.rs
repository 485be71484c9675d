//! A request as it goes to the upstream: its hop ended, its framing made anew (H1, H2).

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE};
use http::{Extensions, Method, Request, Version};
use http_body::Body;
use hyper::upgrade::OnUpgrade;
use oncekey_engine::Attempt;
use oncekey_tower::RequestBody;

use crate::fields::{self, Protected};
use crate::front::{ClientAddress, Secured};

/// A request ready to be sent, and what it isn't sent with.
pub(super) struct Outgoing {
    pub(super) request: Request<RequestBody>,
    /// The execution it is, if it is keyed.
    pub(super) attempt: Option<Attempt>,
    /// The client's side of the tunnel it asks for.
    pub(super) upgrade: Option<OnUpgrade>,
}

/// Makes the request that goes upstream; `host` is used where the client sent none.
pub(super) fn prepare(mut request: Request<RequestBody>, protected: &Protected, host: &HeaderValue) -> Outgoing {
    let mut extensions = std::mem::take(request.extensions_mut());
    let attempt = extensions.remove::<Attempt>();
    let client = extensions.remove::<ClientAddress>();
    let secured = extensions.remove::<Secured>().is_some();
    // An execution ends with its answer; a tunnel has none (H4: the layer has refused it by now).
    let tunnel = if attempt.is_none() { asked_tunnel(&request, &mut extensions) } else { None };

    let received = request.version();
    // A keyed request always asks for them: the record is everybody's, whatever the first client takes (R6).
    let trailers = attempt.is_some() || fields::lists(request.headers(), TE, "trailers");
    fields::end_hop(request.headers_mut(), protected);
    request.headers_mut().remove(EXPECT);
    frame(&mut request);

    let headers = request.headers_mut();
    let scheme = if secured { "https" } else { "http" };
    fields::add_forwarded(headers, client.as_ref().map(ClientAddress::as_value), scheme);
    fields::add_via(headers, received);
    headers.entry(HOST).or_insert_with(|| host.clone());
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.append(CONNECTION, HeaderValue::from_static("te"));
    }
    let upgrade = tunnel.map(|(protocol, client)| {
        headers.insert(UPGRADE, protocol);
        headers.append(CONNECTION, HeaderValue::from_static("upgrade"));
        client
    });
    *request.version_mut() = Version::HTTP_11;
    Outgoing { request, attempt, upgrade }
}

/// The protocol that the client asks to change to, if that can be passed on. Not `h2c`, `HTTP/…` or `TLS/…`: through such a
/// tunnel further requests would pass the gateway unguarded. A request with a body isn't changed either: that would start a
/// new protocol in the middle of the old one. `Upgrade` may be ignored (RFC 9110, section 7.8), so these go on without it.
fn asked_tunnel(request: &Request<RequestBody>, extensions: &mut Extensions) -> Option<(HeaderValue, OnUpgrade)> {
    let headers = request.headers();
    let mut protocols = headers.get_all(UPGRADE).into_iter();
    let protocol = protocols.next()?;
    if protocols.next().is_some() || !fields::lists(headers, CONNECTION, "upgrade") || !request.body().is_end_stream() {
        return None;
    }
    let starts =
        |token: &[u8], with: &str| token.get(..with.len()).is_some_and(|s| s.eq_ignore_ascii_case(with.as_bytes()));
    let is_http = |token: &[u8]| ["h2c", "http", "tls"].iter().any(|with| starts(token, with));
    if fields::tokens(protocol).any(is_http) {
        return None;
    }
    Some((protocol.clone(), extensions.remove::<OnUpgrade>()?))
}

/// Frames the body by its own size, whatever the client's framing was. hyper alone would send a body of unknown size with a
/// GET as no body at all, hence `chunked` is said here.
fn frame(request: &mut Request<RequestBody>) {
    let had_length = request.headers_mut().remove(CONTENT_LENGTH).is_some();
    let size = if request.body().is_end_stream() { Some(0) } else { request.body().size_hint().exact() };
    let expects_body = [Method::POST, Method::PUT, Method::PATCH].contains(request.method());
    let headers = request.headers_mut();
    match size {
        Some(0) if !had_length && !expects_body => {}
        Some(size) => {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
        }
        None => {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
    }
}
