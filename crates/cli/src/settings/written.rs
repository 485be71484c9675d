//! A value as it was written, before anyone asked whether it suits its setting: from TOML, or from the text of a flag or
//! an environment variable.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeValue};

/// A value as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Written {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// `true` or `false`.
    Flag(bool),
    /// A list.
    List(Vec<Self>),
    /// A table, its members in order.
    Table(Vec<(String, Self)>),
    /// Something that no setting takes (a float, a date, a number too large), by its name.
    Other(&'static str),
}

impl Written {
    /// From a TOML value.
    pub(crate) fn from_toml(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.clone().into_owned()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or(Self::Other("a number that is too large"), Self::Number),
            DeValue::Boolean(flag) => Self::Flag(*flag),
            DeValue::Array(items) => Self::List(items.iter().map(|item| Self::from_toml(item.get_ref())).collect()),
            DeValue::Float(_) => Self::Other("a float"),
            DeValue::Datetime(_) => Self::Other("a date"),
            DeValue::Table(members) => {
                let member = |(name, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
                    (name.get_ref().clone().into_owned(), Self::from_toml(value.get_ref()))
                };
                Self::Table(members.iter().map(member).collect())
            }
        }
    }

    /// From a bare text that may stand for a number or a flag too; `12` in a flag is the `12` of a file.
    pub(crate) fn scalar(text: &str) -> Self {
        if let Ok(number) = text.parse() {
            return Self::Number(number);
        }
        match text {
            "true" => Self::Flag(true),
            "false" => Self::Flag(false),
            _ => Self::Text(text.to_owned()),
        }
    }

    /// From the bare text of a list: parts between commas, or a TOML array where a part holds a comma itself.
    pub(crate) fn list(text: &str) -> Self {
        if text.trim_start().starts_with('[') {
            if let Ok(value) = DeValue::parse(text) {
                return Self::from_toml(value.get_ref());
            }
        } else if text.trim().is_empty() {
            return Self::List(Vec::new());
        }
        Self::List(text.split(',').map(|part| Self::scalar(part.trim())).collect())
    }

    /// From the bare text of a table or a list of lines: in brackets or braces as in a file, else one line.
    pub(crate) fn table_or_lines(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::List(Vec::new());
        }
        match DeValue::parse(text) {
            Ok(value) if text.trim_start().starts_with(['{', '[']) => Self::from_toml(value.get_ref()),
            _ => Self::List(vec![Self::Text(text.to_owned())]),
        }
    }

    /// What it is, for a message about a wrong type.
    pub(crate) const fn what(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Number(_) => "a number",
            Self::Flag(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(what) => what,
        }
    }
}

impl fmt::Display for Written {
    /// As TOML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{}", toml::Value::String(text.clone())),
            Self::Number(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Table(members) => {
                f.write_str("{")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    let name = toml::Value::String(name.clone());
                    write!(f, "{}{name} = {value}", if index > 0 { ", " } else { " " })?;
                }
                f.write_str(" }")
            }
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// The span of a list's item, so that an error points at the item and not at the list.
pub(crate) fn item_span(value: &DeValue<'_>, index: usize) -> Option<Range<usize>> {
    value.as_array().and_then(|items| items.get(index)).map(toml::Spanned::span)
}
