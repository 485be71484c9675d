//! The idempotency key: parsed once, valid ever after (rules K2, K3, K5).

use std::fmt;

/// Which keys a route takes (K5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyFormat {
    /// Any key of rule K3.
    #[default]
    Any,
    /// A hyphenated UUID of any version, compared in lower case.
    Uuid,
    /// A hyphenated UUID of version 4, compared in lower case.
    Uuid4,
}

/// A decoded key: 1 to 255 characters, each in 0x21–0x7E (K3).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key(Box<str>);

/// Why a field value is no key; each says what a client must change (400 `key-invalid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nothing but white space, or `""`.
    #[error("the key is empty")]
    Empty,
    /// More than 255 characters after decoding.
    #[error("the key is longer than 255 characters")]
    TooLong,
    /// A character outside 0x21–0x7E, or a comma in a key that isn't quoted.
    #[error("the key holds a character that is not allowed (visible ASCII only; no comma unless quoted)")]
    Character,
    /// An opening quote without its end, a wrong escape, or text after the closing quote.
    #[error("the quoted key is malformed")]
    Quoting,
    /// The route takes UUIDs only.
    #[error("the key is not a UUID of the version this route takes")]
    NotUuid,
}

impl Key {
    /// Reads a key out of one field value, in either spelling (K2): an RFC 9651 string (parameters ignored) or the bare
    /// form. Spaces and tabs around it are trimmed.
    pub fn parse(field: &[u8], format: KeyFormat) -> Result<Self, KeyError> {
        let field = trim(field);
        let decoded = if field.first() == Some(&b'"') { quoted(field)? } else { bare(field)? };
        let key = Self::from_decoded(&decoded)?;
        match format {
            KeyFormat::Any => Ok(key),
            KeyFormat::Uuid => key.into_uuid(None),
            KeyFormat::Uuid4 => key.into_uuid(Some(b'4')),
        }
    }

    /// A key from its decoded form, as a store kept it or as the command line gives it (K3).
    pub fn from_decoded(decoded: &str) -> Result<Self, KeyError> {
        if decoded.is_empty() {
            return Err(KeyError::Empty);
        }
        if decoded.chars().count() > 255 {
            return Err(KeyError::TooLong);
        }
        if !decoded.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(KeyError::Character);
        }
        Ok(Self(decoded.into()))
    }

    /// The decoded key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn into_uuid(self, version: Option<u8>) -> Result<Self, KeyError> {
        let bytes = self.0.as_bytes();
        let hyphenated = bytes.len() == 36
            && bytes.iter().enumerate().all(|(index, byte)| match index {
                8 | 13 | 18 | 23 => *byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            });
        let variant_ok = || matches!(bytes[19].to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b');
        let right_version = || version.is_none_or(|version| bytes[14] == version && variant_ok());
        if hyphenated && right_version() {
            Ok(Self(self.0.to_ascii_lowercase().into()))
        } else {
            Err(KeyError::NotUuid)
        }
    }
}

impl fmt::Debug for Key {
    /// Never the key itself: debug output ends in logs (P2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} characters)", self.0.len())
    }
}

fn trim(field: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = field.iter().position(|byte| !blank(byte)).unwrap_or(field.len());
    let end = field.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    &field[start..end]
}

fn quoted(field: &[u8]) -> Result<String, KeyError> {
    let item = sfv::Parser::new(field).parse::<sfv::Item>().map_err(|_| KeyError::Quoting)?;
    match item.bare_item {
        sfv::BareItem::String(text) => Ok(text.as_str().to_owned()),
        _ => Err(KeyError::Quoting),
    }
}

fn bare(field: &[u8]) -> Result<String, KeyError> {
    if field.contains(&b',') {
        return Err(KeyError::Character);
    }
    // Non-ASCII bytes become characters that `from_decoded` refuses; which ones does not matter.
    Ok(String::from_utf8_lossy(field).into_owned())
}
