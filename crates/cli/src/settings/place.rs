//! Where a setting's value stands, and what is wrong or doubtful there.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Where a value stands. [`Place::origin`] is the form for people who ask where a value came from; the `Display` form
/// opens an error.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Nowhere: built in.
    Default,
    /// In the configuration file; line and column count from 1.
    File {
        /// The file as it was named.
        name: Arc<str>,
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// The file as a whole.
    WholeFile(Arc<str>),
    /// In an environment variable.
    Environment(String),
    /// In a flag, named with its dashes.
    Flag(&'static str),
}

impl Place {
    /// The place of a span of the file `name` with this text.
    pub(crate) fn in_file(name: &Arc<str>, text: &str, span: &Range<usize>) -> Self {
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
        Self::File { name: Arc::clone(name), line, column }
    }

    /// Where a value came from: `default`, `file FILE:LINE`, `environment NAME`, `flag --x`.
    pub(crate) fn origin(&self) -> String {
        match self {
            Self::File { name, line, .. } => format!("file {name}:{line}"),
            Self::WholeFile(name) => format!("file {name}"),
            Self::Default | Self::Environment(_) | Self::Flag(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Self::WholeFile(name) => f.write_str(name),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// Something about one setting, at one place: an error when the configuration is refused for it, else a warning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Remark {
    /// Where it is.
    pub(crate) place: Place,
    /// The setting, or what was written instead of one; empty when the remark is about the whole file.
    pub(crate) key: String,
    /// What is wrong, and what is allowed.
    pub(crate) text: String,
}

impl Remark {
    /// A remark on `key` at `place`.
    pub(crate) fn new(place: &Place, key: impl Into<String>, text: impl Into<String>) -> Self {
        Self { place: place.clone(), key: key.into(), text: text.into() }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.text)
    }
}

/// Everything that is wrong with a configuration; never empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) Vec<Remark>);

impl fmt::Display for Refused {
    /// One line an error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, remark) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{remark}")?;
        }
        Ok(())
    }
}
