//! Values by name and type, found in the first of several layers that has them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, HeaderName, Method};
use oncekey_core::Namespace;
use oncekey_core::fingerprint::Pointer;
use oncekey_core::policy::StatusSet;

use super::address::{SecretRef, StoreUrl, Upstream};
use super::place::Place;
use super::stated::{Assigned, Layer};
use super::table::{DECLARE, SETTINGS};
use super::value::Value;
use crate::jwt::Jwks;
use crate::scopes::ScopeFrom;

/// A view on layers, the first one first.
pub(crate) struct Values<'a>(Vec<&'a Layer>);

impl<'a> Values<'a> {
    /// A view on these layers.
    pub(crate) fn new<const N: usize>(layers: [&'a Layer; N]) -> Self {
        Self(layers.into())
    }

    fn assigned(&self, name: &str) -> Option<&'a Assigned> {
        self.0.iter().find_map(|layer| layer.get(name))
    }

    /// The value of a setting that may have none.
    pub(crate) fn optional(&self, name: &str) -> Option<&'a Value> {
        self.assigned(name).map(|assigned| &assigned.value)
    }

    /// Where a setting's value stands.
    pub(crate) fn place(&self, name: &str) -> &'a Place {
        self.assigned(name).map_or(&Place::Default, |assigned| &assigned.place)
    }

    /// What a route's setting is called where it stands: in the route itself, or in `[defaults]`. What is built in stands nowhere; that
    /// it doesn't suit is the route's matter.
    pub(crate) fn titled(&self, name: &str) -> String {
        let is_own = self.0.first().is_some_and(|layer| layer.contains_key(name));
        let title = if is_own || *self.place(name) == Place::Default { "route" } else { "defaults" };
        format!("{title}.{name}")
    }

    /// Where a key set is, if one is named.
    pub(crate) fn jwks(&self, name: &str) -> Option<Jwks> {
        self.optional(name).map(|value| match value {
            Value::Jwks(jwks) => jwks.clone(),
            other => unreachable!("the table makes `{name}` a key set, not {other:?}"),
        })
    }

    /// The texts of a setting that may have none.
    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        match self.optional(name) {
            None => Vec::new(),
            Some(Value::Texts(texts)) => texts.clone(),
            Some(Value::Text(text)) => vec![text.clone()],
            Some(other) => unreachable!("the table makes `{name}` texts, not {other:?}"),
        }
    }

    /// The text of a setting, if it has one.
    pub(crate) fn optional_text(&self, name: &str) -> Option<String> {
        self.optional(name).map(|value| match value {
            Value::Text(text) => text.clone(),
            other => unreachable!("the table makes `{name}` a text, not {other:?}"),
        })
    }

    /// The file that a setting names, if it names one.
    pub(crate) fn file(&self, name: &str) -> Option<PathBuf> {
        self.optional_text(name).map(PathBuf::from)
    }

    /// What `[declare]` states of the store, by name.
    pub(crate) fn declared(&self) -> BTreeMap<&'static str, &'static str> {
        let names = SETTINGS.iter().filter_map(|setting| setting.name.strip_prefix(DECLARE));
        let stated = names.filter_map(|name| match self.optional(&format!("{DECLARE}{name}"))? {
            Value::Word(value) => Some((name, *value)),
            other => unreachable!("the table makes each declared setting a word, not {other:?}"),
        });
        stated.collect()
    }

    /// Where a secret is kept, if one is named.
    pub(crate) fn secret(&self, name: &str) -> Option<SecretRef> {
        self.optional(name).map(|value| match value {
            Value::Secret(secret) => secret.clone(),
            other => unreachable!("the table makes `{name}` a secret, not {other:?}"),
        })
    }
}

macro_rules! getters {
    ($($getter:ident: $variant:ident -> $type:ty;)*) => {
        impl Values<'_> {
            $(
                #[doc = concat!("The value of a setting that the table gives the kind of `", stringify!($variant), "` and a default.")]
                pub(crate) fn $getter(&self, name: &str) -> $type {
                    match self.optional(name) {
                        Some(Value::$variant(value)) => value.clone(),
                        other => unreachable!("the table gives `{name}` a default of another kind: {other:?}"),
                    }
                }
            )*
        }
    };
}

getters! {
    duration: Duration -> Duration;
    count: Count -> u64;
    flag: Flag -> bool;
    word: Word -> &'static str;
    namespace: Namespace -> Namespace;
    address: Address -> SocketAddr;
    upstream: Upstream -> Upstream;
    store: Store -> StoreUrl;
    header: Header -> HeaderName;
    text: Text -> String;
    headers: Headers -> Vec<HeaderName>;
    pointers: Pointers -> Vec<Pointer>;
    fields: Fields -> HeaderMap;
    scope: Scope -> Vec<ScopeFrom>;
    statuses: Statuses -> StatusSet;
    methods: Methods -> Vec<Method>;
}
