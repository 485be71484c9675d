//! The recipe of a fingerprint (F9): which encoding, and what of the route's settings it was made by.

use std::fmt::{self, Write};
use std::str::FromStr;

use http::HeaderName;

use super::pointer::Pointer;

/// The settings and the encoding version that a fingerprint is made by (F9). A record keeps the recipe of its
/// fingerprint, so that a retry is compared under it whatever the route's settings are by then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recipe {
    pub(super) encoding: Encoding,
    /// Sorted, without repetitions.
    pub(super) headers: Box<[HeaderName]>,
    /// Sorted, without repetitions.
    pub(super) ignore: Box<[Pointer]>,
}

/// The versions of the encoding. None ever changes; new fingerprints are made by the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Encoding {
    /// Reads JSON alone; a body under a content coding is raw.
    V1,
    /// Reads forms and multipart bodies too, and looks through content codings (F5, F6).
    #[default]
    V2,
    /// The seed's own digest, which a record of its table kept; see [`seed`](super::seed). The digest is part of the recipe,
    /// since which of several formulas made it shows only by comparing.
    Seed([u8; 32]),
}

/// A recipe that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecipeError {
    /// `Authorization` changes with the token, so a refreshed credential would look like another operation (F1).
    #[error("Authorization can't be part of the fingerprint")]
    Authorization,
    /// Text that this version didn't write: a later version's record, or a damaged one.
    #[error("`{0}` is no recipe that this version knows")]
    Unknown(String),
}

impl Recipe {
    /// The present encoding with these request headers named in `fingerprint.headers`; their order doesn't matter.
    pub fn new(headers: &[HeaderName]) -> Result<Self, RecipeError> {
        if headers.contains(&http::header::AUTHORIZATION) {
            return Err(RecipeError::Authorization);
        }
        let mut headers = headers.to_vec();
        headers.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        headers.dedup();
        Ok(Self { headers: headers.into(), ..Self::default() })
    }

    /// The same without what `fingerprint.ignore` points to in JSON bodies (F7); the order doesn't matter.
    #[must_use]
    pub fn ignoring(self, mut pointers: Vec<Pointer>) -> Self {
        pointers.sort();
        pointers.dedup();
        Self { ignore: pointers.into(), ..self }
    }
}

impl fmt::Display for Recipe {
    /// The form in which records keep it: `v2`, `v2 headers=a,b`, `v2 ignore=/a,/b`, `v2 headers=a ignore=/a`; `seed` and
    /// a digest in hex. What could be taken for its punctuation is percent-encoded in a pointer.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.encoding {
            Encoding::V1 => f.write_str("v1")?,
            Encoding::V2 => f.write_str("v2")?,
            Encoding::Seed(digest) => {
                f.write_str("seed ")?;
                digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            }
        }
        for (index, name) in self.headers.iter().enumerate() {
            f.write_str(if index == 0 { " headers=" } else { "," })?;
            f.write_str(name.as_str())?;
        }
        for (index, pointer) in self.ignore.iter().enumerate() {
            f.write_str(if index == 0 { " ignore=" } else { "," })?;
            write_pointer(&pointer.to_string(), f)?;
        }
        Ok(())
    }
}

fn write_pointer(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'~' | b'_' | b'-' | b'.' => f.write_char(byte.into())?,
            _ => write!(f, "%{byte:02X}")?,
        }
    }
    Ok(())
}

impl FromStr for Recipe {
    type Err = RecipeError;

    fn from_str(text: &str) -> Result<Self, RecipeError> {
        let unknown = || RecipeError::Unknown(text.to_owned());
        let mut fields = text.split(' ');
        let encoding = match fields.next() {
            Some("v1") => Encoding::V1,
            Some("v2") => Encoding::V2,
            Some("seed") => Encoding::Seed(fields.next().and_then(read_digest).ok_or_else(unknown)?),
            _ => return Err(unknown()),
        };
        let (mut headers, mut ignore) = (Vec::new(), Vec::new());
        for field in fields {
            let (name, list) = field.split_once('=').ok_or_else(unknown)?;
            match name {
                _ if matches!(encoding, Encoding::Seed(_)) => return Err(unknown()),
                "headers" => {
                    let names = list.split(',').map(|name| HeaderName::from_bytes(name.as_bytes()));
                    headers = names.collect::<Result<_, _>>().map_err(|_| unknown())?;
                }
                "ignore" if encoding != Encoding::V1 => {
                    let pointers = list.split(',').map(read_pointer);
                    ignore = pointers.collect::<Option<_>>().ok_or_else(unknown)?;
                }
                _ => return Err(unknown()),
            }
        }
        let recipe = Self { encoding, ..Self::new(&headers)?.ignoring(ignore) };
        // One recipe has one text. Whatever else reads like one was not written by this version.
        if recipe.to_string() == text { Ok(recipe) } else { Err(unknown()) }
    }
}

fn read_digest(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in digest.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(digest)
}

fn read_pointer(text: &str) -> Option<Pointer> {
    let mut pieces = text.split('%');
    let mut decoded = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        decoded.push(u8::from_str_radix(piece.get(..2)?, 16).ok()?);
        decoded.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(decoded).ok()?.parse().ok()
}
