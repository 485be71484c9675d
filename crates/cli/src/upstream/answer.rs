//! An answer as it comes from the upstream: judged by its framing, its hop ended.

use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;

use super::body::{Lease, UpstreamBody};
use super::lines::Answered;
use super::pool::Sender;
use super::{Shared, UpstreamError, http2, tunnel};
use crate::fields;

/// Takes an answer in. `upgrade` is the client's side of the tunnel that was asked for.
pub(super) fn receive(
    answered: Answered,
    upgrade: Option<OnUpgrade>,
    shared: &Shared,
) -> Result<Response<UpstreamBody>, UpstreamError> {
    match answered {
        Answered::One(response, sender) => receive_one(response, sender, upgrade, shared),
        Answered::Two(response) => receive_two(response, shared),
    }
}

fn receive_one(
    mut response: Response<Incoming>,
    sender: Sender,
    upgrade: Option<OnUpgrade>,
    shared: &Shared,
) -> Result<Response<UpstreamBody>, UpstreamError> {
    let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let protocol = response.headers_mut().remove(UPGRADE).filter(|_| switched);
    let mut exclusive = reframe(response.headers_mut()).map_err(UpstreamError::broken)?;
    // A 204 that announces a body may send one after all, and the next answer on its connection would be those bytes.
    exclusive |= response.status() == StatusCode::NO_CONTENT && announces_body(response.headers());
    let version = response.version();
    end_hop(&mut response, shared);
    if switched {
        let client =
            upgrade.ok_or_else(|| UpstreamError::broken("the upstream changed to a protocol nobody asked for"))?;
        return Ok(switch(response, protocol, (client, sender), shared));
    }
    // An HTTP/1.0 connection isn't kept: hyper would go on in 1.0 and drop the bodies whose size it doesn't know.
    let reusable = version == Version::HTTP_11 && !exclusive;
    let lease = reusable.then(|| Lease { sender, pool: Arc::clone(&shared.lines.pool) });
    Ok(response.map(|incoming| UpstreamBody::on_connection(incoming, lease)))
}

/// The frames are the framing here; a length that disagrees with them ends the body in an error.
fn receive_two(
    mut response: Response<http2::Answer>,
    shared: &Shared,
) -> Result<Response<UpstreamBody>, UpstreamError> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(UpstreamError::broken("the upstream changed to a protocol nobody asked for"));
    }
    reframe(response.headers_mut()).map_err(UpstreamError::broken)?;
    end_hop(&mut response, shared);
    Ok(response.map(UpstreamBody::on_stream))
}

fn end_hop<B>(response: &mut Response<B>, shared: &Shared) {
    let version = response.version();
    fields::end_hop(response.headers_mut(), &shared.protected);
    fields::add_via(response.headers_mut(), version);
    *response.version_mut() = Version::HTTP_11;
}

fn announces_body(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING) || headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0")
}

/// Judges the framing, and leaves at most one plain `Content-Length`. True if the connection must not be used again: with
/// both framings on one answer, the next would be anyone's.
fn reframe(headers: &mut HeaderMap) -> Result<bool, &'static str> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).into_iter();
    if let Some(coding) = codings.next() {
        if codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
            return Err("the upstream answered in a transfer coding that wasn't asked for");
        }
        return Ok(headers.remove(CONTENT_LENGTH).is_some());
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).into_iter().flat_map(fields::tokens);
    let Some(first) = lengths.next() else { return Ok(false) };
    let mut repeated = false;
    for other in lengths {
        if other != first {
            return Err("the upstream answered with two lengths");
        }
        repeated = true;
    }
    if repeated {
        let plain = HeaderValue::from_bytes(first).map_err(|_| "the upstream answered with an unreadable length")?;
        headers.insert(CONTENT_LENGTH, plain);
    }
    Ok(false)
}

/// Starts the tunnel behind a 101. The sender goes with it: dropped now, it might close the connection before the change.
fn switch(
    mut response: Response<Incoming>,
    protocol: Option<HeaderValue>,
    (client, sender): (OnUpgrade, Sender),
    shared: &Shared,
) -> Response<UpstreamBody> {
    if let Some(protocol) = protocol {
        response.headers_mut().insert(UPGRADE, protocol);
    }
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    let upstream = hyper::upgrade::on(&mut response);
    tunnel::open(client, upstream, sender, &shared.drain);
    response.map(|incoming| UpstreamBody::on_connection(incoming, None))
}
