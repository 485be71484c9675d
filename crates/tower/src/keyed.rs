//! Whether a request is keyed, and which record it names: its key and its scope (rules K and S).

use http::header::{AUTHORIZATION, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};
use oncekey_core::problem::{Code, Problem};
use oncekey_core::{Identity, Key, Namespace, Scope, ScopeError, ScopeSource};

use crate::route::Guard;

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

pub(crate) fn look(headers: &HeaderMap, guard: &Guard, namespace: &Namespace) -> Looked {
    let mut lines = headers.get_all(&guard.key_header).iter();
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
    if asks_for_upgrade(headers) {
        let detail = "Send the request without an upgrade: a request with a key can't change the protocol.";
        return Looked::Refused(Problem::because(Code::RequestInvalid, detail), Some(sent));
    }
    match scope(headers, &guard.scope) {
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

/// The first source that yields a value (S1, S2).
fn scope(headers: &HeaderMap, sources: &[ScopeSource]) -> Result<Scope, Problem> {
    for source in sources {
        let found = match source {
            ScopeSource::Header(name) => from_header(headers, name, source)?,
            ScopeSource::Authorization => one_line(headers, &AUTHORIZATION)?
                .map(|value| value.as_bytes().trim_ascii())
                .filter(|credential| !credential.is_empty())
                .map(Scope::of_credential),
            ScopeSource::Static(value) => Scope::new(&source.to_string(), value).ok(),
        };
        if let Some(scope) = found {
            return Ok(scope);
        }
    }
    Err(Problem::scope_missing(sources))
}

fn from_header(headers: &HeaderMap, name: &HeaderName, source: &ScopeSource) -> Result<Option<Scope>, Problem> {
    let invalid = |error| Problem::scope_invalid(source, error);
    let Some(value) = one_line(headers, name)? else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| invalid(ScopeError::Character))?;
    match Scope::new(&source.to_string(), text.trim_matches([' ', '\t'])) {
        Ok(scope) => Ok(Some(scope)),
        Err(ScopeError::Empty) => Ok(None),
        Err(error) => Err(invalid(error)),
    }
}

/// The only line of a field; several are `scope-invalid`, equal or not.
fn one_line<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (_, Some(_)) => {
            let detail = format!("Send one `{name}` field; this request has several.");
            Err(Problem::because(Code::ScopeInvalid, detail))
        }
        (line, None) => Ok(line),
    }
}
