//! The process's environment: read here, once, and nowhere else.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// A snapshot of environment variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment(BTreeMap<String, OsString>);

impl Environment {
    /// The variables of this process. Names that are not UTF-8 are nobody's settings and are left out.
    pub(crate) fn of_process() -> Self {
        Self(std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect())
    }

    /// A variable's value; `None` if it isn't set.
    pub(crate) fn get(&self, name: &str) -> Result<Option<&str>, String> {
        match self.0.get(name) {
            None => Ok(None),
            Some(value) => value.to_str().map(Some).ok_or_else(|| format!("{name} is not UTF-8")),
        }
    }

    /// Whether a variable is set, to whatever.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The names of the variables, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }
}
