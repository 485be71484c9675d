//! Reads what goes into answers (fixed header fields, and the beginning of a problem's `type`) and into probes.

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::Wrong;
use super::lists::{RESERVED_HEADERS, list};
use super::scalars::{text, wrong_type};
use crate::settings::probe_headers::{FieldFrom, ProbeHeaders};
use crate::settings::written::Written;

/// Fields that frame a message or belong to one connection, and those that oncekey says itself in its own answers.
const NOT_FIXED: [&str; 19] = [
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "idempotency-key",
    "idempotent-replayed",
    "keep-alive",
    "location",
    "preference-applied",
    "proxy-connection",
    "retry-after",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "www-authenticate",
];

/// Fields that carry a credential, which stands in no configuration.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// Reads fixed fields: a table of them, or a list of lines (`"NAME: VALUE"`), in which a name may stand more than once.
pub(super) fn answer_headers(written: &Written) -> Result<HeaderMap, Wrong> {
    let mut fields = HeaderMap::new();
    match written {
        Written::Table(members) => {
            for (name, value) in members {
                let value = text(value).map_err(|wrong| Wrong::from(format!("`{name}`: {}", wrong.what)))?;
                add(&mut fields, name, value)?;
            }
        }
        Written::List(_) => {
            for (index, line) in list(written)?.iter().enumerate() {
                let added = text(line).and_then(|line| match line.split_once(':') {
                    Some((name, value)) => add(&mut fields, name, value.trim()).map_err(Wrong::from),
                    None => Err(Wrong::from(format!("`{line}` has no colon"))),
                });
                added.map_err(|wrong| Wrong { item: Some(index), ..wrong })?;
            }
        }
        other => return Err(wrong_type(other, "a table or a list")),
    }
    Ok(fields)
}

fn add(fields: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{name}` is no header name"))?;
    if NOT_FIXED.contains(&header.as_str()) || header.as_str().starts_with("oncekey-") {
        return Err(format!("`{name}` can't be fixed: it frames the message, or oncekey says it itself"));
    }
    let printable = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    let value = HeaderValue::from_str(value).ok().filter(|_| printable && !value.is_empty());
    fields.append(header, value.ok_or_else(|| format!("`{name}` needs a value of visible ASCII characters"))?);
    Ok(())
}

/// Reads the fields of a probe: a table of names and values.
pub(super) fn probe_headers(written: &Written) -> Result<ProbeHeaders, Wrong> {
    let Written::Table(members) = written else { return Err(wrong_type(written, "a table")) };
    let mut fields = ProbeHeaders::default();
    for (name, value) in members {
        let field = text(value).and_then(|value| probe_header(name, value).map_err(Wrong::from));
        fields.0.push(field.map_err(|wrong| Wrong::from(format!("`{name}`: {}", wrong.what)))?);
    }
    Ok(fields)
}

fn probe_header(name: &str, value: &str) -> Result<(HeaderName, FieldFrom), String> {
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "that is no header name")?;
    let frames = RESERVED_HEADERS.contains(&header.as_str()) && !CREDENTIALS.contains(&header.as_str());
    if frames || header == ACCEPT_ENCODING {
        return Err("that field is oncekey's own to say".to_owned());
    }
    if value.starts_with("env:") || value.starts_with("file:") {
        return Ok((header, FieldFrom::Secret(value.parse()?)));
    }
    if CREDENTIALS.contains(&header.as_str()) {
        return Err("a secret is never written here; name where it is kept".to_owned());
    }
    let printable = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    let value = HeaderValue::from_str(value).ok().filter(|_| printable && !value.is_empty());
    Ok((header, FieldFrom::Literal(value.ok_or("it needs a value of visible ASCII characters")?)))
}

/// The beginning of a `type`, to which a code is added: an absolute URI, or a path on the API's own host.
pub(super) fn type_base(text: &str) -> Result<String, Wrong> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte);
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    let absolute = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if text.len() > 1024 || !text.bytes().all(fits) || !(absolute || text.starts_with('/')) {
        return Err(Wrong::from("it is no URI".to_owned()));
    }
    Ok(text.to_owned())
}
