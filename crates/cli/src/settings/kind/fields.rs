//! Reads what goes into answers: fixed header fields, and the beginning of a problem's `type`.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::Wrong;
use super::lists::list;
use super::scalars::{text, wrong_type};
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
