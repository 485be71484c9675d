//! The recorded response: what of an upstream answer is kept (R1–R6). The bytes in which stores keep it are in
//! `head`; when an answer is recorded is the policy's, framing a replay is the server's.

mod head;

use bytes::Bytes;
use http::header::{
    AGE, ALT_SVC, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, COOKIE,
    DATE, HOST, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, StatusCode};

use crate::TraceContext;
use crate::policy::{OUTCOME, Recording};

pub use head::DecodeError;

/// A response as it is recorded and replayed: status, end-to-end header lines in their order, body, trailers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedResponse {
    /// Status of the upstream's answer.
    pub status: StatusCode,
    /// The header lines that rule R3 lets through; the lines of one name keep their order.
    pub headers: HeaderMap,
    /// The body, or that it wasn't kept.
    pub body: RecordedBody,
    /// The lines that came after the body (R6), in their order.
    pub trailers: HeaderMap,
    /// The span of the execution that was answered so, where it was traced. No part of what clients get.
    pub trace: Option<TraceContext>,
}

/// The body of a recorded response.
#[derive(Clone, PartialEq, Eq)]
pub enum RecordedBody {
    /// The bytes as the upstream sent them.
    Stored(Bytes),
    /// Streamed to the first client and not kept (R5, R7); a retry gets `response-not-stored`.
    NotStored,
}

impl std::fmt::Debug for RecordedBody {
    /// The length only; no log line holds a body (P2).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stored(bytes) => write!(f, "Stored({} bytes)", bytes.len()),
            Self::NotStored => f.write_str("NotStored"),
        }
    }
}

impl RecordedResponse {
    /// What is recorded of an answer without trailers (R3). `headers` are the upstream's, with or without what
    /// [`end_to_end`] removes; the fields that are oncekey's own are taken out before, by [`strip_own`].
    pub fn of(status: StatusCode, headers: &HeaderMap, body: RecordedBody, recording: &Recording) -> Self {
        let mut headers = end_to_end(headers);
        retain(&mut headers, |name| {
            let dropped = recording.drop_headers.contains(name) || (*name == SET_COOKIE && !recording.store_set_cookie);
            !is_never_recorded(name) && !dropped
        });
        Self { status, headers, body, trailers: HeaderMap::new(), trace: None }
    }

    /// The same with what is recorded of its trailers (R3, R6). They are the upstream's, with or without what
    /// [`end_to_end_trailers`] removes.
    #[must_use]
    pub fn with_trailers(self, trailers: &HeaderMap, recording: &Recording) -> Self {
        let mut trailers = end_to_end_trailers(trailers);
        retain(&mut trailers, |name| !is_never_recorded(name) && !recording.drop_headers.contains(name));
        Self { trailers, ..self }
    }

    /// The same without its body and what came after it: all that is kept of an answer that is too large to keep (R5).
    #[must_use]
    pub fn without_body(&self) -> Self {
        let (headers, trailers) = (self.headers.clone(), HeaderMap::new());
        Self { status: self.status, headers, body: RecordedBody::NotStored, trailers, trace: self.trace }
    }
}

/// The fields of a message that go further than its connection: all but the hop-by-hop ones and those that `Connection`
/// names (H2). `Content-Length` stays; whoever sends the message checks it against the body or replaces it. `Trailer` stays
/// too, since the trailers that it announces go on.
#[must_use]
pub fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let lines = headers.get_all(CONNECTION).iter();
    let named = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let named: Vec<_> = named.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect();
    let mut headers = headers.clone();
    retain(&mut headers, |name| !is_hop_by_hop(name) && !named.contains(name));
    headers
}

/// The trailers of a message that go further than its connection. What frames a message, routes it, says how its content is
/// to be read, or carries a credential means nothing after the content, and is taken for an attempt to smuggle it past
/// whoever has judged the head (RFC 9110, 6.5.1).
#[must_use]
pub fn end_to_end_trailers(trailers: &HeaderMap) -> HeaderMap {
    const NEVER: [HeaderName; 10] = [
        AUTHORIZATION,
        CONTENT_ENCODING,
        CONTENT_LENGTH,
        CONTENT_RANGE,
        CONTENT_TYPE,
        COOKIE,
        HOST,
        SET_COOKIE,
        TRAILER,
        WWW_AUTHENTICATE,
    ];
    let mut trailers = end_to_end(trailers);
    retain(&mut trailers, |name| !NEVER.contains(name) && !name.as_str().starts_with("proxy-"));
    trailers
}

/// Removes what an upstream has no business to say, since it is oncekey that says it (R2, P1, P3) or is told it (E11).
pub fn strip_own(headers: &mut HeaderMap, key_header: &HeaderName) {
    const OWN: [HeaderName; 6] = [
        HeaderName::from_static("idempotent-replayed"),
        HeaderName::from_static("oncekey-problem"),
        HeaderName::from_static("oncekey-problem-json"),
        HeaderName::from_static("oncekey-operation-id"),
        OUTCOME,
        HeaderName::from_static("oncekey-unguarded"),
    ];
    retain(headers, |name| !OWN.contains(name) && name != key_header);
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    *name == CONNECTION
        || *name == TE
        || *name == TRANSFER_ENCODING
        || *name == UPGRADE
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Fields that were true of the first answer only. A replay is framed anew, so it has no use for `Content-Length`; whoever
/// sends it announces the trailers that it has, so it has no use for `Trailer` either.
fn is_never_recorded(name: &HeaderName) -> bool {
    *name == DATE
        || *name == AGE
        || *name == ALT_SVC
        || *name == WWW_AUTHENTICATE
        || *name == CONTENT_LENGTH
        || *name == TRAILER
        || name == "authentication-info"
        || name.as_str().starts_with("proxy-")
}

/// Keeps the lines whose names `keep` lets through, in their order; `HeaderMap::remove` would move the last name to the
/// place of the removed one, and a first answer and its replay would differ.
pub fn retain(headers: &mut HeaderMap, keep: impl Fn(&HeaderName) -> bool) {
    if !headers.keys().all(&keep) {
        let all = std::mem::take(headers);
        let kept = all.iter().filter(|(name, _)| keep(name));
        *headers = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    }
}
