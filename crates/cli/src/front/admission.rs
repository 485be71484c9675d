//! What is wrong with a request before anything else looks at it (H1), and its target in one form.
//!
//! hyper has refused by now, with a bare 400: heads that can't be parsed, differing or unreadable lengths, a coding whose last
//! member isn't `chunked`, `Transfer-Encoding` on 1.0. It has dropped the length of a request that has both framings, and
//! closes the connection after the answer.

use bytes::Bytes;
use http::header::{HOST, HeaderValue, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{Method, Request, Uri, Version};

/// Checks a request and brings its target into origin form; the authority of an absolute target becomes the `Host`
/// (RFC 9112, section 3.2.2). The error says what is wrong.
pub(crate) fn admit<B>(request: &mut Request<B>) -> Result<(), &'static str> {
    if request.method() == Method::CONNECT {
        return Err("CONNECT is not served here");
    }
    check_coding(request)?;
    check_host(request)?;
    if request.uri().authority().is_some() {
        into_origin_form(request)?;
    }
    let path = request.uri().path();
    let everything = path == "*" && request.method() == Method::OPTIONS;
    if path.starts_with('/') || everything { Ok(()) } else { Err("the request target is not a path") }
}

fn check_coding<B>(request: &Request<B>) -> Result<(), &'static str> {
    let mut codings = request.headers().get_all(TRANSFER_ENCODING).into_iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(only), None) if only.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err("Transfer-Encoding may be chunked, once, and nothing else"),
    }
}

fn check_host<B>(request: &Request<B>) -> Result<(), &'static str> {
    let mut hosts = request.headers().get_all(HOST).into_iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if host.as_bytes().iter().copied().all(may_stand_in_host) => Ok(()),
        (Some(_), None) => Err("the Host field names no host"),
        (Some(_), Some(_)) => Err("there is more than one Host field"),
        (None, _) if request.version() == Version::HTTP_10 => Ok(()),
        (None, _) => Err("there is no Host field"),
    }
}

/// The characters of a name, an address or a port; above all no `@`, `/`, `,` or space.
fn may_stand_in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=:[]".contains(&byte)
}

fn into_origin_form<B>(request: &mut Request<B>) -> Result<(), &'static str> {
    let uri = std::mem::take(request.uri_mut());
    let Some(authority) = uri.authority().filter(|_| uri.scheme().is_some()) else {
        return Err("the request target is not a path");
    };
    if !authority.as_str().bytes().all(may_stand_in_host) {
        return Err("the request target names no host");
    }
    let host = HeaderValue::from_maybe_shared(Bytes::copy_from_slice(authority.as_str().as_bytes()))
        .map_err(|_| "the request target names no host")?;
    request.headers_mut().insert(HOST, host);
    let path = uri.into_parts().path_and_query.filter(|path| !path.as_str().is_empty());
    *request.uri_mut() = path.map_or_else(|| Uri::from(PathAndQuery::from_static("/")), Uri::from);
    Ok(())
}
