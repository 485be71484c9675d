//! Where a request's scope is read from (S1, S2): the readers of a route, and the first of them that yields a value.

mod cookie;

use std::fmt;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, request};
use oncekey_core::problem::{Code, Problem};
use oncekey_core::{Scope, ScopeError, ScopeSource};

/// Reads the scope from a request's head: from its fields, or from what stood in front of the layer and left in its
/// extensions (a verified token, a client's certificate, a session).
///
/// The name of the source is part of each record's identity: two readers of one name are one source, and a value from
/// another source is another scope. A reader runs for each keyed request, before its body is read, and mustn't block.
#[derive(Clone)]
pub struct ScopeReader {
    source: Arc<str>,
    read: Arc<Read>,
}

type Read = dyn Fn(&request::Parts) -> Result<Option<String>, InvalidScope> + Send + Sync;

/// Why what a reader found is no scope (400 `scope-invalid`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct InvalidScope {
    detail: String,
    of_credential: bool,
}

impl InvalidScope {
    /// `detail` is what the client gets to read: a plain sentence that says what to do. It mustn't hold a credential (P2).
    pub fn because(detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), of_credential: false }
    }

    /// The credential that proves the scope isn't believed: it has expired, say. With a fresh one the same request is good, and
    /// since it may be the retry of one that was executed, its client is told to keep the key (`retry` is `same-key`).
    pub fn credential(detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), of_credential: true }
    }

    fn into_problem(self) -> Problem {
        let problem = Problem::because(Code::ScopeInvalid, self.detail);
        if self.of_credential { problem.to_repeat() } else { problem }
    }
}

impl ScopeReader {
    /// A reader of one's own. `None` and an empty value are no value: the next source is asked. An error ends the search,
    /// and so does a value that is longer than 255 characters or holds a control character.
    pub fn new<F>(source: &str, read: F) -> Self
    where
        F: Fn(&request::Parts) -> Result<Option<String>, InvalidScope> + Send + Sync + 'static,
    {
        Self { source: source.into(), read: Arc::new(read) }
    }

    /// The name of the source, as it stands in a record's identity.
    pub fn source(&self) -> &str {
        &self.source
    }

    fn scope(&self, head: &request::Parts) -> Result<Option<Scope>, Problem> {
        let value = (self.read)(head).map_err(InvalidScope::into_problem)?;
        match value.map(|value| Scope::new(&self.source, &value)) {
            None | Some(Err(ScopeError::Empty)) => Ok(None),
            Some(Ok(scope)) => Ok(Some(scope)),
            Some(Err(error)) => Err(Problem::scope_invalid(&self.source, error)),
        }
    }
}

impl fmt::Debug for ScopeReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScopeReader({})", self.source)
    }
}

impl From<ScopeSource> for ScopeReader {
    fn from(source: ScopeSource) -> Self {
        let name = source.to_string();
        Self::new(&name, move |head| match &source {
            ScopeSource::Header(field) => header(head, field, &source),
            ScopeSource::Cookie(name) => Ok(cookie::value(&head.headers, name)?.map(Scope::digest)),
            ScopeSource::Authorization => authorization(head),
            ScopeSource::Static(value) => Ok(Some(value.to_string())),
        })
    }
}

/// The first source that yields a value (S1, S2).
pub(crate) fn read(head: &request::Parts, readers: &[ScopeReader]) -> Result<Scope, Problem> {
    for reader in readers {
        if let Some(scope) = reader.scope(head)? {
            return Ok(scope);
        }
    }
    Err(Problem::scope_missing(readers.iter().map(ScopeReader::source)))
}

fn header(head: &request::Parts, field: &HeaderName, source: &ScopeSource) -> Result<Option<String>, InvalidScope> {
    let Some(value) = one_line(head, field)? else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| {
        InvalidScope::because(Problem::scope_invalid(&source.to_string(), ScopeError::Character).detail)
    })?;
    Ok(Some(text.trim_matches([' ', '\t']).to_owned()))
}

fn authorization(head: &request::Parts) -> Result<Option<String>, InvalidScope> {
    let credential = one_line(head, &AUTHORIZATION)?.map(|value| value.as_bytes().trim_ascii());
    Ok(credential.filter(|credential| !credential.is_empty()).map(Scope::digest))
}

/// The only line of a field; several are `scope-invalid`, equal or not.
fn one_line<'a>(head: &'a request::Parts, field: &HeaderName) -> Result<Option<&'a HeaderValue>, InvalidScope> {
    let mut lines = head.headers.get_all(field).iter();
    match (lines.next(), lines.next()) {
        (_, Some(_)) => Err(InvalidScope::because(format!("Send one `{field}` field; this request has several."))),
        (line, None) => Ok(line),
    }
}
