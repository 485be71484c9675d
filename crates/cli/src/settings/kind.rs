//! The kinds of values that settings take: how each is read, and what it allows.

mod fields;
mod lists;
mod scalars;

use oncekey_core::Namespace;

use fields::{answer_headers, probe_headers, type_base};
use lists::{
    added_header, fingerprint_header, header, items, method, pointer, scope_source, some, some_text, statuses,
};
use scalars::{
    address, duration, file, key_header, number, one_of, parsed, path, server_name, size, text, whole_seconds, within,
    word, wrong_type,
};

use super::value::Value;
use super::written::Written;

/// A kind of value, with its bounds. Durations and sizes are spelled as in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A duration within bounds.
    Duration(&'static str, &'static str),
    /// A duration within bounds, in whole seconds, since it goes into a header field.
    Seconds(&'static str, &'static str),
    /// A number of bytes within bounds.
    Size(&'static str, &'static str),
    /// A whole number within bounds.
    Count(u64, u64),
    /// One of these numbers.
    Number(&'static [u64]),
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// See [`Namespace`].
    Namespace,
    /// The pattern of a route's path.
    Path,
    /// An IP address and a port.
    Address,
    /// See [`super::address::Upstream`].
    Upstream,
    /// The path of a file, relative to the working directory.
    File,
    /// The name of a TLS server: a DNS name or an address.
    ServerName,
    /// See [`super::address::StoreUrl`].
    Store,
    /// See [`super::address::SecretRef`].
    Secret,
    /// A header name that can carry a key.
    KeyHeader,
    /// Header names that can carry a key.
    KeyHeaders,
    /// Header names.
    Headers,
    /// Header fields of oncekey's own answers.
    AnswerHeaders,
    /// See [`super::probe_url::ProbeUrl`].
    ProbeUrl,
    /// Header fields of a probe.
    ProbeHeaders,
    /// What a problem's `type` begins with.
    TypeBase,
    /// Header names that may go into a fingerprint.
    FingerprintHeaders,
    /// Pointers to what doesn't go into a fingerprint.
    Pointers,
    /// A text that isn't empty.
    Text,
    /// A text that isn't empty, or several.
    Texts,
    /// See [`crate::jwt::Jwks`].
    Jwks,
    /// Scope sources, at least one.
    Scope,
    /// Status codes and classes.
    Statuses,
    /// Methods that may be guarded, at least one.
    Methods,
    /// Whatever: for settings of later versions, whose values nobody looks at yet.
    Any,
}

/// Why a written value doesn't suit its setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// What is wrong with it.
    pub(crate) what: String,
    /// The item of a list that is meant.
    pub(crate) item: Option<usize>,
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Self { what, item: None }
    }
}

impl Kind {
    /// What it allows, as the end of an error or a cell of the reference.
    pub(crate) fn allowed(self) -> String {
        match self {
            Self::Duration(least, most) => format!("a duration from {least} to {most}"),
            Self::Seconds(least, most) => format!("whole seconds from {least} to {most}"),
            Self::Size(least, most) => format!("a size from {least} to {most}"),
            Self::Count(least, most) => format!("a whole number from {least} to {most}"),
            Self::Number(numbers) => join(numbers),
            Self::Flag => "true, false".to_owned(),
            Self::Word(words) => words.join(", "),
            Self::Text | Self::Any => "a text".to_owned(),
            Self::Namespace => "1 to 64 characters out of A-Z a-z 0-9 . _ -".to_owned(),
            Self::Path => "a path from `/` on; {name} takes one segment, {*rest} the tail".to_owned(),
            Self::Address => "IP:PORT, like 127.0.0.1:8080 or [::1]:8080".to_owned(),
            Self::Upstream => "http://HOST[:PORT] or https://HOST[:PORT]".to_owned(),
            Self::File => "the path of a file".to_owned(),
            Self::ServerName => "a DNS name or an IP address".to_owned(),
            Self::Store => "sqlite:PATH, postgres://HOST/DATABASE, memory:".to_owned(),
            Self::Secret => "env:NAME, file:PATH".to_owned(),
            Self::KeyHeader => "a header name that doesn't frame the message or carry a credential".to_owned(),
            Self::KeyHeaders => "a list of header names that don't frame the message or carry a credential".to_owned(),
            Self::Headers => "a list of header names".to_owned(),
            Self::AnswerHeaders => {
                "a table of header names and values, or a list of \"NAME: VALUE\"; none that oncekey sets itself"
                    .to_owned()
            }
            Self::ProbeUrl => {
                "http://HOST[:PORT]/PATH or https://…; {key}, {scope} and {operation_id} stand for values".to_owned()
            }
            Self::ProbeHeaders => "a table of header names and values; a value may be env:NAME or file:PATH".to_owned(),
            Self::TypeBase => "a URI or a path, to which the code is added".to_owned(),
            Self::FingerprintHeaders => "a list of header names, without Authorization".to_owned(),
            Self::Pointers => "a list of JSON pointers (RFC 6901), like \"/meta/trace\"".to_owned(),
            Self::Texts => "a text, or a list of texts".to_owned(),
            Self::Jwks => "file:PATH, https://HOST/PATH, or http:// on this machine".to_owned(),
            Self::Scope => {
                "a list of header:NAME, cookie:NAME, authorization, jwt:CLAIM, client-cert, static:VALUE".to_owned()
            }
            Self::Statuses => "a list of status codes from 200 to 599 and classes \"2xx\" to \"5xx\"".to_owned(),
            Self::Methods => "a list of methods in upper case, without GET, HEAD and OPTIONS".to_owned(),
        }
    }

    /// The bare text of a flag, an environment variable or the table of settings, as it would be written in a file.
    pub(crate) fn written(self, text: &str) -> Written {
        match self {
            Self::Size(..) | Self::Count(..) | Self::Number(_) | Self::Flag => Written::scalar(text),
            Self::KeyHeaders
            | Self::Headers
            | Self::FingerprintHeaders
            | Self::Pointers
            | Self::Texts
            | Self::Scope
            | Self::Statuses
            | Self::Methods => Written::list(text),
            Self::AnswerHeaders | Self::ProbeHeaders => Written::table_or_lines(text),
            _ => Written::Text(text.to_owned()),
        }
    }

    /// Reads a value of this kind.
    pub(crate) fn read(self, written: &Written) -> Result<Value, Wrong> {
        match self {
            Self::Duration(least, most) => duration(written, least, most).map(Value::Duration),
            Self::Seconds(least, most) => whole_seconds(duration(written, least, most)?).map(Value::Duration),
            Self::Size(least, most) => size(written, least, most).map(Value::Count),
            Self::Count(least, most) => within(number(written)?, least, most).map(Value::Count),
            Self::Number(numbers) => one_of(number(written)?, numbers).map(Value::Count),
            Self::Flag => match written {
                Written::Flag(flag) => Ok(Value::Flag(*flag)),
                other => Err(wrong_type(other, "true or false")),
            },
            Self::Word(words) => word(written, words),
            Self::Any => Ok(Value::Text(written.to_string())),
            Self::Namespace => parsed::<Namespace, _>(written).map(Value::Namespace),
            Self::Path => path(text(written)?).map(Value::Text),
            Self::Address => address(text(written)?),
            Self::Upstream => parsed(written).map(Value::Upstream),
            Self::File => file(text(written)?).map(Value::Text),
            Self::ServerName => server_name(text(written)?).map(Value::Text),
            Self::Store => parsed(written).map(Value::Store),
            Self::Secret => parsed(written).map(Value::Secret),
            Self::KeyHeader => key_header(text(written)?).map(Value::Header),
            Self::KeyHeaders => items(written, added_header).map(Value::Headers),
            Self::Headers => items(written, header).map(Value::Headers),
            Self::AnswerHeaders => answer_headers(written).map(Value::Fields),
            Self::ProbeUrl => parsed(written).map(Value::ProbeUrl),
            Self::ProbeHeaders => probe_headers(written).map(Value::ProbeHeaders),
            Self::TypeBase => type_base(text(written)?).map(Value::Text),
            Self::FingerprintHeaders => items(written, fingerprint_header).map(Value::Headers),
            Self::Pointers => items(written, pointer).map(Value::Pointers),
            Self::Text => Ok(Value::Text(some_text(text(written)?)?)),
            Self::Texts => match written {
                Written::Text(_) => items(&Written::List(vec![written.clone()]), some_text),
                _ => some(items(written, some_text)?),
            }
            .map(Value::Texts),
            Self::Jwks => parsed(written).map(Value::Jwks),
            Self::Scope => some(items(written, scope_source)?).map(Value::Scope),
            Self::Statuses => statuses(written).map(Value::Statuses),
            Self::Methods => some(items(written, method)?).map(Value::Methods),
        }
    }
}

fn join(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
