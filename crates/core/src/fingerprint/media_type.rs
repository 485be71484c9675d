//! The media type of a request, as far as the fingerprint knows it (F2): lower case, without its parameters.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};

/// What `Content-Type` says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MediaType<'a> {
    /// There is no such field.
    Absent,
    /// One line: its type in lower case, without parameters; empty if the line is.
    One(Vec<u8>),
    /// Several lines, whole and in order. Which one an upstream believes is its own affair, so all of them count and the
    /// body is read by none.
    Repeated(Vec<&'a [u8]>),
}

impl<'a> MediaType<'a> {
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let lines: Vec<_> = headers.get_all(CONTENT_TYPE).iter().map(HeaderValue::as_bytes).collect();
        match lines.as_slice() {
            [] => Self::Absent,
            [line] => Self::One(essence(line)),
            _ => Self::Repeated(lines),
        }
    }

    /// Whether a body of this type says that it is JSON (F3).
    pub(super) fn is_json(&self) -> bool {
        matches!(self, Self::One(essence) if essence == b"application/json" || essence.ends_with(b"+json"))
    }

    /// Whether a boundary parts a body of this type.
    pub(super) fn is_multipart(&self) -> bool {
        matches!(self, Self::One(essence) if essence.starts_with(b"multipart/"))
    }

    /// Whether it is this one.
    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self, Self::One(essence) if essence == name.as_bytes())
    }
}

pub(super) fn essence(line: &[u8]) -> Vec<u8> {
    let end = line.iter().position(|byte| *byte == b';').unwrap_or(line.len());
    line[..end].trim_ascii().to_ascii_lowercase()
}
