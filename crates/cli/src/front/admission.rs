//! What is wrong with a request before anything else looks at it (H1), and its target in one form.
//!
//! hyper has refused by now, with a bare 400: heads that can't be parsed, differing or unreadable lengths, a coding whose last
//! member isn't `chunked`, `Transfer-Encoding` on 1.0. It has dropped the length of a request that has both framings, and
//! closes the connection after the answer.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderValue, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{Method, Request, Uri, Version};
use oncekey_engine::fault;

/// Checks a request and brings its target into origin form; the authority of an absolute target becomes the `Host`
/// (RFC 9112, section 3.2.2). The error says what is wrong.
pub(crate) fn admit<B>(request: &mut Request<B>) -> Result<(), &'static str> {
    if fault::broken("admit_anything") {
        return Ok(());
    }
    if request.method() == Method::CONNECT {
        return Err("CONNECT is not served here");
    }
    check_coding(request)?;
    check_host(request)?;
    if request.uri().authority().is_some() {
        into_origin_form(request)?;
    }
    check_path(request)
}

/// Checks a request of HTTP/2 and gives it the form that one of HTTP/1 has by now: its authority is the `Host` (RFC 9113,
/// section 8.3.1), its cookies stand on one line (section 8.2.3). h2 has refused by now, by resetting the stream: fields that
/// belong to a connection, pseudo-header fields that are missing, twice or late, names in upper case, a body that isn't as
/// long as it says.
pub(super) fn admit_stream<B>(request: &mut Request<B>, most: usize) -> Result<(), &'static str> {
    if request.method() == Method::CONNECT {
        return Err("CONNECT is not served here");
    }
    if request.headers().len() > most {
        return Err("there are too many header fields");
    }
    if request.headers().get_all(CONTENT_LENGTH).iter().count() > 1 {
        return Err("there is more than one Content-Length field");
    }
    if request.uri().path_and_query().is_some_and(|path| path.as_str().starts_with('?')) {
        return Err("the request target is not a path");
    }
    let authority = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let mut hosts = request.headers().get_all(HOST).into_iter();
    if let (Some(authority), Some(host)) = (&authority, hosts.next())
        && !host.as_bytes().eq_ignore_ascii_case(authority.as_bytes())
    {
        return Err("the Host field differs from the authority");
    }
    if authority.is_none() || hosts.next().is_some() {
        check_host(request)?;
    }
    if authority.is_some() {
        into_origin_form(request)?;
    } else {
        let path = std::mem::take(request.uri_mut()).into_parts().path_and_query;
        *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
    }
    join_cookies(request);
    check_path(request)
}

/// The cookies of a request on one line, which is all that HTTP/1 knows.
fn join_cookies<B>(request: &mut Request<B>) {
    let mut lines = request.headers().get_all(COOKIE).iter();
    if let (Some(first), Some(second)) = (lines.next(), lines.next()) {
        let all = [first, second].into_iter().chain(lines).map(HeaderValue::as_bytes);
        let joined = all.collect::<Vec<_>>().join(&b"; "[..]);
        let joined =
            HeaderValue::from_maybe_shared(Bytes::from(joined)).expect("joined field values are a field value");
        request.headers_mut().insert(COOKIE, joined);
    }
}

fn check_path<B>(request: &Request<B>) -> Result<(), &'static str> {
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
