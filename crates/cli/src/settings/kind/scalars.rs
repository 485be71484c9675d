//! Reads single values.

use std::time::Duration;

use http::HeaderName;

use super::Wrong;
use super::lists::{RESERVED_HEADERS, header};
use crate::settings::quantity;
use crate::settings::suggestion::suggest;
use crate::settings::value::Value;
use crate::settings::written::Written;

pub(super) fn wrong_type(written: &Written, wanted: &str) -> Wrong {
    Wrong::from(format!("it must be {wanted}, not {}", written.what()))
}

pub(super) fn text(written: &Written) -> Result<&str, Wrong> {
    match written {
        Written::Text(text) => Ok(text),
        other => Err(wrong_type(other, "a text")),
    }
}

pub(super) fn number(written: &Written) -> Result<u64, Wrong> {
    match written {
        Written::Number(number) => u64::try_from(*number).map_err(|_| Wrong::from(format!("{number} is out of range"))),
        other => Err(wrong_type(other, "a whole number")),
    }
}

/// Reads by `FromStr`; its error says what is wrong without repeating the text, which may hold a credential.
pub(super) fn parsed<T, E>(written: &Written) -> Result<T, Wrong>
where
    T: std::str::FromStr<Err = E>,
    E: std::fmt::Display,
{
    text(written)?.parse().map_err(|error: E| Wrong::from(error.to_string()))
}

pub(super) fn duration(written: &Written, least: &str, most: &str) -> Result<Duration, Wrong> {
    let bound = |text| quantity::duration(text).expect("a test reads every bound of the table");
    if let Written::Number(number) = written {
        return Err(format!("{number} needs a unit, like \"{number}s\" or \"{number}ms\"").into());
    }
    let text = text(written).map_err(|_| wrong_type(written, "a text like \"30s\""))?;
    let duration = quantity::duration(text)?;
    if duration < bound(least) || duration > bound(most) {
        return Err(format!("{text} is out of range").into());
    }
    Ok(duration)
}

pub(super) fn whole_seconds(duration: Duration) -> Result<Duration, Wrong> {
    match duration.subsec_nanos() {
        0 => Ok(duration),
        _ => Err("a fraction of a second can't be sent in Retry-After".to_owned().into()),
    }
}

pub(super) fn size(written: &Written, least: &str, most: &str) -> Result<u64, Wrong> {
    let bound = |text| quantity::size(text).expect("a test reads every bound of the table");
    let bytes = match written {
        Written::Number(_) => number(written)?,
        Written::Text(text) => quantity::size(text)?,
        other => return Err(wrong_type(other, "a text like \"1MiB\" or a number of bytes")),
    };
    within(bytes, bound(least), bound(most))
}

pub(super) fn within(number: u64, least: u64, most: u64) -> Result<u64, Wrong> {
    if (least..=most).contains(&number) { Ok(number) } else { Err(format!("{number} is out of range").into()) }
}

pub(super) fn one_of(number: u64, numbers: &[u64]) -> Result<u64, Wrong> {
    if numbers.contains(&number) { Ok(number) } else { Err(format!("{number} is none of them").into()) }
}

pub(super) fn word(written: &Written, words: &'static [&'static str]) -> Result<Value, Wrong> {
    let text = text(written)?;
    match words.iter().find(|word| **word == text) {
        Some(word) => Ok(Value::Word(word)),
        None => Err(format!("`{text}` is none of them{}", suggest(text, words.iter().copied())).into()),
    }
}

pub(super) fn address(text: &str) -> Result<Value, Wrong> {
    text.parse().map(Value::Address).map_err(|_| {
        let what = match text.rsplit_once(':') {
            Some(("", port)) if port.parse::<u16>().is_ok() => {
                format!("`{text}` names no address; every address is 0.0.0.0:{port}")
            }
            Some((host, _)) if host.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                format!("`{text}` names a host; an address is needed")
            }
            _ => format!("`{text}` is no address with a port"),
        };
        Wrong::from(what)
    })
}

/// What the router can't tell by itself: spellings that would match nothing.
pub(super) fn path(text: &str) -> Result<String, Wrong> {
    let outside_braces = text.split(['{', '}']).step_by(2).collect::<String>();
    if !text.starts_with('/') {
        Err(format!("`{text}` doesn't begin with `/`").into())
    } else if text.contains(['?', '#']) {
        Err(format!("`{text}` holds a query; every query is guarded").into())
    } else if outside_braces.contains('*') {
        Err(format!("`{text}` holds a bare `*`, which would be taken as a character; the tail is {{*rest}}").into())
    } else if text.split('/').any(|segment| segment.starts_with(':')) {
        Err(format!("`{text}` holds a `:name`, which would be taken as it stands; a segment is {{name}}").into())
    } else {
        Ok(text.to_owned())
    }
}

/// The header of the key.
pub(super) fn key_header(text: &str) -> Result<HeaderName, Wrong> {
    let name = header(text)?;
    if RESERVED_HEADERS.contains(&name.as_str()) {
        Err(format!("`{text}` has a meaning of its own").into())
    } else {
        Ok(name)
    }
}

/// The path of a file; whether it is there is asked by who needs it.
pub(super) fn file(text: &str) -> Result<String, Wrong> {
    match text {
        "" => Err("it is empty".to_owned().into()),
        _ if text.contains('\0') => Err("no file has such a name".to_owned().into()),
        _ => Ok(text.to_owned()),
    }
}

/// The name that a certificate is checked for.
pub(super) fn server_name(text: &str) -> Result<String, Wrong> {
    match rustls::pki_types::ServerName::try_from(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(format!("`{text}` is no name of a server").into()),
    }
}
