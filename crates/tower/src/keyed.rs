//! Whether a request is keyed, and which record it names: its key and its scope (rules K and S).

use http::header::UPGRADE;
use http::{HeaderMap, HeaderName, HeaderValue, request};
use oncekey_core::problem::{Code, Problem};
use oncekey_core::{Identity, Key, Namespace};

use crate::route::Guard;
use crate::scope;

/// A key as the client sent it (K8, E11).
#[derive(Clone)]
pub(crate) struct SentKey {
    pub(crate) header: HeaderName,
    pub(crate) value: HeaderValue,
}

/// What a guarded route makes of a request's head.
pub(crate) enum Looked {
    /// No key, and none is needed: it passes untouched (K6).
    NoKey,
    /// It is refused; with its key where it had a valid one.
    Refused(Problem, Option<SentKey>),
    /// It is keyed.
    Keyed { identity: Identity, sent: SentKey },
}

pub(crate) fn look(head: &request::Parts, guard: &Guard, namespace: &Namespace) -> Looked {
    let mut lines = head.headers.get_all(&guard.key_header).iter();
    let value = match (lines.next(), lines.next()) {
        (None, _) if guard.key_required => return Looked::Refused(Problem::key_missing(&guard.key_header), None),
        (None, _) => return Looked::NoKey,
        (Some(_), Some(_)) => {
            let detail = format!("Send one `{}` field; this request has several.", guard.key_header);
            return Looked::Refused(Problem::because(Code::KeyInvalid, detail), None);
        }
        (Some(value), None) => value,
    };
    let key = match Key::parse(value.as_bytes(), guard.key_format) {
        Ok(key) => key,
        Err(error) => return Looked::Refused(Problem::key_invalid(error), None),
    };
    let sent = SentKey { header: guard.key_header.clone(), value: value.clone() };
    if asks_for_upgrade(&head.headers) {
        let detail = "Send the request without an upgrade: a request with a key can't change the protocol.";
        return Looked::Refused(Problem::because(Code::RequestInvalid, detail), Some(sent));
    }
    match scope::read(head, &guard.scope) {
        Ok(scope) => Looked::Keyed { identity: Identity { namespace: namespace.clone(), scope, key }, sent },
        Err(problem) => Looked::Refused(problem, Some(sent)),
    }
}

/// Whether a request depends on another protocol than HTTP (H4). An offer of another version of HTTP, as Java's client makes
/// with each request (`Upgrade: h2c`), may be ignored by any server, and the request is served as it is.
fn asks_for_upgrade(headers: &HeaderMap) -> bool {
    let mut protocols = headers.get_all(UPGRADE).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    protocols.any(|protocol| {
        let protocol = protocol.trim_ascii();
        let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default();
        !protocol.is_empty() && !name.eq_ignore_ascii_case(b"h2c") && !name.eq_ignore_ascii_case(b"http")
    })
}
