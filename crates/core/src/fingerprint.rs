//! When two requests are the same operation (rules F): a SHA-256 over a versioned, length-prefixed encoding of method,
//! path, query, media type, canonical body and named headers.
//!
//! This file owns the recipe and what goes into the digest in which order. How each part reads the same however a client
//! spells it is decided beside it, in files of their own. Comparing fingerprints is the engine's work.
//!
//! The encoding `v1` never changes, since records keep fingerprints made by it (F9). Whatever must count differently is a
//! new version beside it, chosen by the recipe; a record made under `v1` is compared under `v1`.

mod encoder;
mod json;
mod media_type;
mod query;

use std::fmt;
use std::str::FromStr;

use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use encoder::Encoder;
use media_type::MediaType;

/// The settings and the encoding version that a fingerprint is made by (F9). A record keeps the recipe of its
/// fingerprint, so that a retry is compared under it whatever the route's settings are by then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recipe {
    headers: Box<[HeaderName]>,
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
        Ok(Self { headers: headers.into() })
    }
}

impl fmt::Display for Recipe {
    /// The form in which records keep it: `v1`, or `v1 headers=a,b`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("v1")?;
        for (index, name) in self.headers.iter().enumerate() {
            f.write_str(if index == 0 { " headers=" } else { "," })?;
            f.write_str(name.as_str())?;
        }
        Ok(())
    }
}

impl FromStr for Recipe {
    type Err = RecipeError;

    fn from_str(text: &str) -> Result<Self, RecipeError> {
        let unknown = || RecipeError::Unknown(text.to_owned());
        let names = match text.strip_prefix("v1").ok_or_else(unknown)? {
            "" => return Ok(Self::default()),
            rest => rest.strip_prefix(" headers=").ok_or_else(unknown)?,
        };
        let headers: Result<Vec<_>, _> = names.split(',').map(|name| HeaderName::from_bytes(name.as_bytes())).collect();
        Self::new(&headers.map_err(|_| unknown())?)
    }
}

/// A fingerprint: the digest, and the recipe it was made by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    digest: [u8; 32],
    recipe: Recipe,
}

/// What of a request goes into its fingerprint.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path as sent, still percent-encoded.
    pub path: &'a str,
    /// The query as sent, without its `?`.
    pub query: Option<&'a str>,
    /// The request's fields; the media type and the recipe's headers are read from them.
    pub headers: &'a HeaderMap,
    /// The whole body.
    pub body: &'a [u8],
}

impl Fingerprint {
    /// The fingerprint of a request under `recipe`. Takes time linear in the request's size, whatever the body holds (but
    /// for sorting names), and never refuses: judging a body is the upstream's work (F4).
    pub fn of(operation: &Operation<'_>, recipe: &Recipe) -> Self {
        let media_type = MediaType::of(operation.headers);
        let mut encoder = Encoder::new("oncekey/fingerprint/v1");
        encoder.bytes(operation.method.as_str().as_bytes());
        encoder.bytes(operation.path.as_bytes());
        encode_query(operation.query, &mut encoder);
        encode_media_type(&media_type, &mut encoder);
        encode_body(operation, &media_type, &mut encoder);
        for name in &recipe.headers {
            encode_header(name, operation.headers, &mut encoder);
        }
        Self { digest: encoder.finish(), recipe: recipe.clone() }
    }

    /// A fingerprint as a store kept it.
    pub const fn from_parts(digest: [u8; 32], recipe: Recipe) -> Self {
        Self { digest, recipe }
    }

    /// The digest.
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The recipe.
    pub const fn recipe(&self) -> &Recipe {
        &self.recipe
    }
}

fn encode_query(query: Option<&str>, encoder: &mut Encoder) {
    let pairs = query::pairs(query.unwrap_or_default());
    encoder.count(pairs.len());
    for (name, value) in pairs {
        encoder.bytes(&name);
        encoder.bytes(&value);
    }
}

/// An absent, an empty and a repeated `Content-Type` are three different things, and none is any media type.
fn encode_media_type(media_type: &MediaType<'_>, encoder: &mut Encoder) {
    match media_type {
        MediaType::Absent => encoder.tag(0),
        MediaType::One(essence) => {
            encoder.tag(1);
            encoder.bytes(essence);
        }
        MediaType::Repeated(lines) => {
            encoder.tag(2);
            encoder.list(lines);
        }
    }
}

/// Raw and canonical bodies are kept apart by a tag, so that a body which happens to look like another one's canonical
/// form is not taken for it.
fn encode_body(operation: &Operation<'_>, media_type: &MediaType<'_>, encoder: &mut Encoder) {
    let readable = media_type.is_json() && !is_encoded(operation.headers);
    if let Some(canonical) = readable.then(|| json::canonical(operation.body)).flatten() {
        encoder.tag(1);
        encoder.bytes(&canonical);
    } else {
        encoder.tag(0);
        encoder.bytes(operation.body);
    }
}

/// Whether the body travels under a content coding other than `identity`: then its bytes are not its media type's.
fn is_encoded(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(CONTENT_ENCODING).iter();
    let mut codings = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    codings.any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
}

/// All lines of a field in their order. A count goes first: no line is not an empty line.
fn encode_header(name: &HeaderName, headers: &HeaderMap, encoder: &mut Encoder) {
    let lines: Vec<_> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    encoder.bytes(name.as_str().as_bytes());
    encoder.list(&lines);
}
