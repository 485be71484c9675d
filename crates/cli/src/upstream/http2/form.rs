//! The head of a request as HTTP/2 has it, made from the one that HTTP/1.1 would get.

use http::header::{CONNECTION, HOST, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Uri, Version};

/// `:authority` from the Host, `:scheme` from the connection, and none of the fields that speak of an HTTP/1.1 connection.
/// `TE: trailers` is the one that HTTP/2 has as well.
///
/// # Errors
/// A sentence, for what HTTP/2 can't express.
pub(super) fn head(parts: &Parts, scheme: &Scheme) -> Result<Request<()>, &'static str> {
    if parts.method == Method::CONNECT {
        return Err("CONNECT isn't passed on in HTTP/2");
    }
    let mut headers = parts.headers.clone();
    let host = headers.remove(HOST).ok_or("a request in HTTP/2 needs a Host")?;
    let authority = Authority::try_from(host.as_bytes()).map_err(|_| "the Host can't be an authority in HTTP/2")?;
    for field in [CONNECTION, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(field);
    }
    let mut uri = http::uri::Parts::default();
    uri.scheme = Some(scheme.clone());
    uri.authority = Some(authority);
    uri.path_and_query = Some(parts.uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")));
    let mut request = Request::new(());
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = Uri::from_parts(uri).map_err(|_| "the request's target can't be expressed in HTTP/2")?;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = headers;
    Ok(request)
}
