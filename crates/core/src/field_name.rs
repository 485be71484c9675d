//! How header names are spelled for people and in records: `X-Account-Id`, whatever spelling came in.

use std::fmt;

use http::HeaderName;

/// A header name whose words begin with a capital. Header names don't know case, so this is one spelling for one name; it is
/// part of records' identities and never changes.
pub(crate) struct Spelled<'a>(pub(crate) &'a HeaderName);

impl fmt::Display for Spelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in self.0.as_str().split('-').enumerate() {
            if index > 0 {
                f.write_str("-")?;
            }
            let (first, rest) = word.split_at(word.len().min(1));
            write!(f, "{}{rest}", first.to_ascii_uppercase())?;
        }
        Ok(())
    }
}
