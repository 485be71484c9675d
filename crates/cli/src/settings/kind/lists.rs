//! Reads lists, item by item, so that an error names the item.

use http::{HeaderName, Method};
use oncekey_core::fingerprint::Pointer;
use oncekey_core::policy::StatusSet;
use oncekey_core::{Recipe, ScopeSource};

use super::Wrong;
use super::scalars::{text, wrong_type};
use crate::scopes::ScopeFrom;
use crate::settings::suggestion::suggest;
use crate::settings::written::Written;

/// Fields that frame a message or carry a credential: they can't carry a key or a scope.
pub(super) const RESERVED_HEADERS: [&str; 14] = [
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The most items that a list in a setting may have.
const LONGEST_LIST: usize = 256;

pub(super) fn list(written: &Written) -> Result<&[Written], Wrong> {
    match written {
        Written::List(items) if items.len() > LONGEST_LIST => {
            Err(format!("{} items are too many; the most is {LONGEST_LIST}", items.len()).into())
        }
        Written::List(items) => Ok(items),
        other => Err(wrong_type(other, "a list")),
    }
}

/// Reads each item of a list of texts; an error names the item.
pub(super) fn items<T>(written: &Written, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, Wrong> {
    let read_item = |(index, item): (usize, &Written)| {
        text(item)
            .and_then(|text| read(text).map_err(Wrong::from))
            .map_err(|wrong| Wrong { item: Some(index), ..wrong })
    };
    list(written)?.iter().enumerate().map(read_item).collect()
}

pub(super) fn some<T>(items: Vec<T>) -> Result<Vec<T>, Wrong> {
    if items.is_empty() { Err("the list is empty".to_owned().into()) } else { Ok(items) }
}

pub(super) fn some_text(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("the text is empty".to_owned()) } else { Ok(text.to_owned()) }
}

pub(super) fn header(text: &str) -> Result<HeaderName, String> {
    HeaderName::from_bytes(text.as_bytes()).map_err(|_| format!("`{text}` is no header name"))
}

/// A field that oncekey adds to what goes upstream: none that has a meaning of its own there.
pub(super) fn added_header(text: &str) -> Result<HeaderName, String> {
    let name = header(text)?;
    let set_here = |name: &str| {
        ["accept-encoding", "via"].contains(&name) || name.starts_with("oncekey-") || name.starts_with("x-forwarded-")
    };
    if RESERVED_HEADERS.contains(&name.as_str()) || set_here(name.as_str()) {
        return Err(format!("`{text}` has a meaning of its own"));
    }
    Ok(name)
}

pub(super) fn fingerprint_header(text: &str) -> Result<HeaderName, String> {
    let name = header(text)?;
    match Recipe::new(std::slice::from_ref(&name)) {
        Ok(_) => Ok(name),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn pointer(text: &str) -> Result<Pointer, String> {
    text.parse().map_err(|error| format!("`{text}` can't be ignored: {error}"))
}

pub(super) fn scope_source(text: &str) -> Result<ScopeFrom, String> {
    let source: ScopeFrom = text.parse()?;
    match &source {
        ScopeFrom::Request(ScopeSource::Header(name)) if name == http::header::AUTHORIZATION => {
            Err(format!("`{text}` would write credentials into records; the source is `authorization`"))
        }
        ScopeFrom::Request(ScopeSource::Header(name)) if RESERVED_HEADERS.contains(&name.as_str()) => {
            Err(format!("`{text}` can't carry a scope; that field has a meaning of its own"))
        }
        _ => Ok(source),
    }
}

pub(super) fn method(text: &str) -> Result<Method, String> {
    const GUARDED: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];
    match text {
        "GET" | "HEAD" | "OPTIONS" => return Err(format!("{text} can't be guarded; it always passes")),
        "CONNECT" | "TRACE" => return Err(format!("{text} can't be guarded")),
        _ => {}
    }
    let parsed = Method::from_bytes(text.as_bytes()).ok().filter(|_| text == text.to_ascii_uppercase());
    let one_letter_off = |known: &&str| strsim::osa_distance(known, text) == 1;
    match parsed {
        Some(method) if !GUARDED.iter().any(one_letter_off) => Ok(method),
        _ => Err(format!("`{text}` is no method{}", suggest(&text.to_ascii_uppercase(), GUARDED))),
    }
}

pub(super) fn statuses(written: &Written) -> Result<StatusSet, Wrong> {
    let mut set = StatusSet::default();
    for (index, item) in list(written)?.iter().enumerate() {
        let wrong = |what| Wrong { what, item: Some(index) };
        match item {
            Written::Number(code @ 200..=599) => {
                set.insert(u16::try_from(*code).expect("a number up to 599"));
            }
            Written::Text(class) => match class.as_bytes() {
                [digit @ b'2'..=b'5', b'x', b'x'] => set.insert_class(u16::from(digit - b'0')),
                _ => return Err(wrong(format!("`{class}` is no class"))),
            },
            Written::Number(code) => return Err(wrong(format!("{code} is no status of an answer"))),
            other => return Err(Wrong { item: Some(index), ..wrong_type(other, "a number or a text") }),
        }
    }
    Ok(set)
}
