//! The fields that a probe is sent with: literal, or from where secrets are kept.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::address::SecretRef;
use super::environment::Environment;

/// Where a field's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldFrom {
    /// It stands in the configuration.
    Literal(HeaderValue),
    /// It is kept elsewhere, since it is a secret.
    Secret(SecretRef),
}

/// Fields by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProbeHeaders(pub(crate) Vec<(HeaderName, FieldFrom)>);

impl ProbeHeaders {
    /// Reads the secrets. An error says which is missing, never what was found.
    pub(crate) fn read(&self, environment: &Environment) -> Result<HeaderMap, String> {
        let mut fields = HeaderMap::new();
        for (name, from) in &self.0 {
            let value = match from {
                FieldFrom::Literal(value) => value.clone(),
                FieldFrom::Secret(kept) => {
                    let secret = kept.read_field(environment).map_err(|why| format!("`{name}`: {why}"))?;
                    let mut value =
                        HeaderValue::from_str(secret.expose()).map_err(|_| format!("`{name}` can't be sent"))?;
                    value.set_sensitive(true);
                    value
                }
            };
            fields.insert(name.clone(), value);
        }
        Ok(fields)
    }

    /// The environment variables that are named.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|(_, from)| match from {
            FieldFrom::Secret(SecretRef::Environment(name)) => Some(name.as_str()),
            _ => None,
        })
    }
}

impl fmt::Display for FieldFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(value) => f.write_str(value.to_str().unwrap_or_default()),
            Self::Secret(kept) => kept.fmt(f),
        }
    }
}
