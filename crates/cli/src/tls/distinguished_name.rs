//! A distinguished name as text, by RFC 4514: the form in which the same name is always the same text.
//!
//! x509-parser's own text doesn't escape: a common name `a, O=b` would be told apart from nothing.

use std::fmt::Write;

use x509_parser::asn1_rs::{Any, Tag, ToDer};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Types by the names that RFC 4514 gives them, and two more that everybody names.
const NAMES: [(&str, &str); 11] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.6", "C"),
    ("2.5.4.9", "STREET"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("2.5.4.5", "serialNumber"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

/// The name's text, the most particular part first; empty for an empty name.
pub(super) fn text(name: &X509Name<'_>) -> String {
    let mut parts: Vec<String> = name.iter_rdn().map(|part| joined(part.iter().map(attribute), "+")).collect();
    parts.reverse();
    parts.join(",")
}

fn joined(items: impl Iterator<Item = String>, with: &str) -> String {
    items.collect::<Vec<_>>().join(with)
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let oid = attribute.attr_type().to_id_string();
    let known = NAMES.iter().find(|(known, _)| *known == oid);
    match (known, string(attribute.attr_value())) {
        (Some((_, name)), Some(value)) => format!("{name}={}", escaped(&value)),
        // A value whose syntax isn't known is given by its encoding.
        (known, _) => format!("{}={}", known.map_or(oid.as_str(), |(_, name)| name), encoded(attribute.attr_value())),
    }
}

/// The text of a value, whichever of the string types a renewal wrote it in.
fn string(value: &Any<'_>) -> Option<String> {
    match value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString => {
            std::str::from_utf8(value.data).ok().map(str::to_owned)
        }
        Tag::BmpString if value.data.len().is_multiple_of(2) => {
            let units = value.data.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            char::decode_utf16(units).collect::<Result<_, _>>().ok()
        }
        _ => None,
    }
}

fn encoded(value: &Any<'_>) -> String {
    let der = value.to_der_vec().unwrap_or_default();
    der.iter().fold("#".to_owned(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// RFC 4514, section 2.4.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (at, character) in value.chars().enumerate() {
        let outer = (at == 0 && matches!(character, ' ' | '#')) || (at == last && character == ' ');
        if outer || matches!(character, '"' | '+' | ',' | ';' | '<' | '>' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_value_is_escaped() {
        for (value, expected) in [
            ("alice", "alice"),
            ("a, O=b", "a\\, O=b"),
            ("a+b;c<d>e\"f\\g", "a\\+b\\;c\\<d\\>e\\\"f\\\\g"),
            (" # ", "\\ #\\ "),
            ("#1", "\\#1"),
            ("", ""),
            (" ", "\\ "),
            ("Zoë", "Zoë"),
        ] {
            assert_eq!(escaped(value), expected);
        }
    }
}
