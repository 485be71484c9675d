//! JSON as Python's `json.loads` and `json.dumps(…, sort_keys=True)` spell it, which the seed's fingerprints were made of.
//!
//! Integers keep every digit; what has a fraction or an exponent is a double, spelled as `repr` does; of members of one name
//! the last counts. What Python alone takes for JSON (`NaN`, a lone surrogate) has no form here.

use std::io::Write;

use super::Reader;

/// How `json.dumps` was told to spell what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fingerprint) struct Style {
    /// `separators=(",", ":")`, else a space follows each.
    pub(in crate::fingerprint) compact: bool,
    /// `ensure_ascii`, which is Python's default.
    pub(in crate::fingerprint) ascii: bool,
}

impl Style {
    pub(in crate::fingerprint) const fn comma(self) -> &'static str {
        if self.compact { "," } else { ", " }
    }

    pub(in crate::fingerprint) const fn colon(self) -> &'static str {
        if self.compact { ":" } else { ": " }
    }
}

/// A body in a spelling of Python's. `None` if it isn't JSON.
pub(in crate::fingerprint) fn spelled(body: &[u8], style: Style) -> Option<String> {
    Some(Reader::new(std::str::from_utf8(body).ok()?, Some(style)).document(&[])?.form)
}

/// Appends a string as `json.dumps` spells it.
pub(in crate::fingerprint) fn write_string(text: &str, ascii: bool, out: &mut Vec<u8>) {
    out.push(b'"');
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            ' '..='~' => out.extend(u8::try_from(character)),
            '\0'..='\u{1f}' => write_escape(u16::try_from(u32::from(character)).unwrap_or_default(), out),
            _ if ascii => character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| write_escape(*unit, out)),
            _ => out.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

fn write_escape(unit: u16, out: &mut Vec<u8>) {
    let _ = write!(out, "\\u{unit:04x}");
}

/// Appends a number that JSON's grammar allows as Python spells it.
pub(super) fn write_number(number: &str, out: &mut Vec<u8>) -> Option<()> {
    if number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        out.extend_from_slice(if number == "-0" { "0" } else { number }.as_bytes());
        return Some(());
    }
    let value: f64 = number.parse().ok()?;
    if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
        return Some(());
    }
    // The shortest digits that give the same double, as `repr` has them; where it puts the point is Python's own.
    let shortest = format!("{value:e}");
    let (mantissa, exponent) = shortest.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        out.extend_from_slice(plain.as_bytes());
        out.extend_from_slice(if plain.contains('.') { b"" } else { b".0" });
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
    Some(())
}
