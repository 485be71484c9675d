//! `multipart/form-data` (F5): the parts in their order, without the boundary between them.
//!
//! The reading is strict (RFC 2046 as RFC 7578 narrows it): what a lenient parser would guess at has no parts here and is
//! fingerprinted as raw bytes. A part is its name, its filename, its media type and its content; names stand as they are
//! between their quotes, since browsers and the RFC disagree on what a backslash there means.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// A part of a form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) name: &'a [u8],
    pub(super) filename: Option<&'a [u8]>,
    /// `filename*`, as it is spelled: RFC 7578 forbids it, and clients send it beside the other.
    pub(super) extended_filename: Option<&'a [u8]>,
    /// In lower case, without parameters.
    pub(super) media_type: Option<Vec<u8>>,
    pub(super) content: &'a [u8],
}

/// The parts of a body, or `None` if it isn't one as the RFCs have it. Takes time linear in the body's size.
pub(super) fn parts<'a>(headers: &HeaderMap, body: &'a [u8]) -> Option<Vec<Part<'a>>> {
    let boundary = boundary(headers.get(CONTENT_TYPE)?.as_bytes())?;
    let delimiter = [b"--", boundary].concat();
    let mut parts = Vec::new();
    // The first delimiter begins the body; a preamble is for readers that don't know multipart.
    let mut rest = body.strip_prefix(delimiter.as_slice())?;
    loop {
        if let Some(end) = rest.strip_prefix(b"--") {
            return (end.is_empty() || end == b"\r\n").then_some(parts);
        }
        let after = rest.strip_prefix(b"\r\n")?;
        let end = find_delimiter(after, &delimiter)?;
        parts.push(part(&after[..end])?);
        rest = &after[end + 2 + delimiter.len()..];
    }
}

/// Where the next line begins that begins with the delimiter; its place is that of the line break before, which belongs to
/// it. Compares no byte twice, as a delimiter holds no line break.
fn find_delimiter(body: &[u8], delimiter: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += body[at..].windows(2).position(|pair| pair == b"\r\n")?;
        if body[at + 2..].starts_with(delimiter) {
            return Some(at);
        }
        at += 2;
    }
}

/// The boundary that a content type names.
fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    let start = content_type.iter().position(|byte| *byte == b';')?;
    let boundary = find(&parameters(&content_type[start..])?, b"boundary")?;
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    let right = boundary.iter().all(allowed) && (1..=70).contains(&boundary.len()) && !boundary.ends_with(b" ");
    right.then_some(boundary)
}

fn part(part: &[u8]) -> Option<Part<'_>> {
    let (mut disposition, mut media_type) = (None, None);
    let mut rest = part;
    loop {
        let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        if line.is_empty() {
            break;
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii());
        if name.is_empty() || !name.iter().copied().all(is_token) || value.contains(&b'\r') || value.contains(&b'\n') {
            return None;
        }
        match name.as_slice() {
            b"content-disposition" => first(&mut disposition, value)?,
            b"content-type" => first(&mut media_type, super::media_type::essence(value))?,
            // The content would not be what it looks like.
            b"content-transfer-encoding" if !is_plain(value) => return None,
            b"content-encoding" => return None,
            _ => {}
        }
    }
    let parameters = disposition.and_then(disposition_parameters)?;
    Some(Part {
        name: find(&parameters, b"name")?,
        filename: find(&parameters, b"filename"),
        extended_filename: find(&parameters, b"filename*"),
        media_type,
        content: rest,
    })
}

/// Takes the value of a field that may stand once.
fn first<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

fn is_plain(coding: &[u8]) -> bool {
    [&b"7bit"[..], b"8bit", b"binary"].iter().any(|plain| coding.eq_ignore_ascii_case(plain))
}

fn disposition_parameters(value: &[u8]) -> Option<Vec<Parameter<'_>>> {
    let end = value.iter().position(|byte| *byte == b';')?;
    let is_form_data = value[..end].trim_ascii().eq_ignore_ascii_case(b"form-data");
    is_form_data.then(|| parameters(&value[end..])).flatten()
}

/// A name in lower case, and a value without its quotes.
type Parameter<'a> = (Vec<u8>, &'a [u8]);

/// The most parameters of a field; far more than anyone sends.
const MOST_PARAMETERS: usize = 16;

/// `;name=token` or `;name="text"`, each name once.
fn parameters(text: &[u8]) -> Option<Vec<Parameter<'_>>> {
    let mut parameters: Vec<Parameter<'_>> = Vec::new();
    let mut rest = text.trim_ascii();
    while !rest.is_empty() {
        rest = rest.strip_prefix(b";")?.trim_ascii_start();
        if rest.is_empty() {
            break;
        }
        let equals = rest.iter().position(|byte| *byte == b'=')?;
        let name = rest[..equals].to_ascii_lowercase();
        let too_many = parameters.len() == MOST_PARAMETERS || find(&parameters, &name).is_some();
        if name.is_empty() || !name.iter().copied().all(is_token) || too_many {
            return None;
        }
        let (value, after) = value(&rest[equals + 1..])?;
        parameters.push((name, value));
        rest = after.trim_ascii_start();
    }
    Some(parameters)
}

/// A value and what follows it.
fn value(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| !is_token(*byte)).unwrap_or(text.len());
        return (end > 0).then(|| text.split_at(end));
    };
    let mut at = 0;
    loop {
        match quoted.get(at)? {
            b'"' => return Some((&quoted[..at], &quoted[at + 1..])),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn find<'a>(parameters: &[Parameter<'a>], name: &[u8]) -> Option<&'a [u8]> {
    parameters.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
}

/// The characters of a token (RFC 9110).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
