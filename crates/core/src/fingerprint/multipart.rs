//! `multipart/form-data` (F5): the parts in their order, without the boundary between them.
//!
//! The reading is strict (RFC 2046 as RFC 7578 narrows it): what a lenient parser would guess at has no parts here and is
//! fingerprinted as raw bytes, lest a form that some upstream reads otherwise pass for one that it doesn't. A part is its
//! name, its other parameters (its filename, above all), its media type and its content; names stand as they are between
//! their quotes, since browsers and the RFC disagree on what a backslash there means.

use memchr::memmem;

/// A part of a form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) name: &'a [u8],
    /// All other parameters of its `Content-Disposition` in their order: `filename`, and `filename*`, which RFC 7578 forbids
    /// and clients send. Some parsers take the first of the two, and some the last.
    pub(super) parameters: Vec<Parameter<'a>>,
    /// In lower case, without parameters.
    pub(super) media_type: Option<Vec<u8>>,
    pub(super) content: &'a [u8],
}

/// The parts of a body under the content type, or `None` if it isn't one as the RFCs have it. Takes time linear in the
/// body's size.
pub(super) fn parts<'a>(content_type: &[u8], body: &'a [u8]) -> Option<Vec<Part<'a>>> {
    let delimiter = [b"--", boundary(content_type)?].concat();
    // The first delimiter begins the body; a preamble is for readers that don't know multipart.
    let mut rest = body.strip_prefix(delimiter.as_slice())?;
    let mut delimiters = memmem::find_iter(rest, &delimiter);
    let (whole, mut parts) = (rest, Vec::new());
    loop {
        if let Some(end) = rest.strip_prefix(b"--") {
            return (end.is_empty() || end == b"\r\n").then_some(parts);
        }
        let start = whole.len() - rest.strip_prefix(b"\r\n")?.len();
        // Wherever it stands, some parser takes it for the end of the part; a form that is well made holds it nowhere else.
        let end = delimiters.next()?;
        parts.push(part(whole.get(start..end)?.strip_suffix(b"\r\n")?)?);
        rest = &whole[end + delimiter.len()..];
    }
}

/// The boundary that a content type names.
fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    let start = content_type.iter().position(|byte| *byte == b';')?;
    let parameters = parameters(&content_type[start..])?;
    // `boundary*` and `boundary*0` are another boundary to some.
    let is_plain = parameters.iter().all(|(name, _)| !name.contains(&b'*'));
    let boundary = find(&parameters, b"boundary").filter(|_| is_plain)?;
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    let right = boundary.iter().all(allowed) && (1..=70).contains(&boundary.len()) && !boundary.ends_with(b" ");
    right.then_some(boundary)
}

fn part(part: &[u8]) -> Option<Part<'_>> {
    let (mut disposition, mut media_type, mut length) = (None, None, None);
    let mut rest = part;
    loop {
        let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        if line.is_empty() {
            break;
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (line[..colon].to_ascii_lowercase(), &line[colon + 1..]);
        // Before any trimming: a lone line feed ends the line, or the whole head, to some.
        let is_field = !name.is_empty() && name.iter().copied().all(is_token) && value.iter().copied().all(is_text);
        if !is_field {
            return None;
        }
        let value = value.trim_ascii();
        match name.as_slice() {
            b"content-disposition" => first(&mut disposition, value)?,
            b"content-type" => first(&mut media_type, super::media_type::essence(value))?,
            b"content-length" => first(&mut length, value)?,
            // The content would not be what it looks like.
            b"content-transfer-encoding" if !is_plain(value) => return None,
            b"content-encoding" => return None,
            _ => {}
        }
    }
    // To some the content ends where its length says; and of parts within a part, only others know the boundary.
    let is_cut = length.is_some_and(|length| length != rest.len().to_string().as_bytes());
    let is_nested = media_type.as_ref().is_some_and(|essence: &Vec<u8>| essence.starts_with(b"multipart/"));
    if is_cut || is_nested {
        return None;
    }
    let mut parameters = disposition.and_then(disposition_parameters)?;
    // `name*`, `name*0` and the like are another name to some.
    if parameters.iter().any(|(name, _)| name.contains(&b'*') && name != b"filename*") {
        return None;
    }
    let name = parameters.iter().position(|(name, _)| name == b"name")?;
    Some(Part { name: parameters.remove(name).1, parameters, media_type, content: rest })
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
pub(super) type Parameter<'a> = (Vec<u8>, &'a [u8]);

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

/// What may stand in a field's value (RFC 9110): no control characters but tabs.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

/// The characters of a token (RFC 9110).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
