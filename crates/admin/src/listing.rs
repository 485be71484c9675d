//! The query of `GET /api/records`, read strictly: a misspelt filter would show, or lead an operator to change, records
//! that were not meant.

use oncekey_core::State;
use oncekey_store::{Cursor, Filter};
use sha2::{Digest, Sha256};

use crate::answer::Refused;

const DEFAULT_LIMIT: u32 = 100;
const MAX_LIMIT: u32 = 1000;

/// A listing that was asked for.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) filter: Filter,
    pub(crate) cursor: Option<Cursor>,
    pub(crate) limit: u32,
}

impl Listing {
    /// Reads the decoded pairs of a query. An empty value is no value; a name may come once.
    pub(crate) fn parse(pairs: Vec<(String, String)>) -> Result<Self, Refused> {
        let mut listing = Self { filter: Filter::default(), cursor: None, limit: DEFAULT_LIMIT };
        let mut seen = Vec::new();
        for (name, value) in pairs {
            if seen.contains(&name) {
                return Err(Refused::bad_request(format!("`{name}` is given twice.")));
            }
            if !value.is_empty() {
                listing.set(&name, value)?;
            } else if !NAMES.contains(&name.as_str()) {
                return Err(unknown(&name));
            }
            seen.push(name);
        }
        Ok(listing)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), Refused> {
        let filter = &mut self.filter;
        match name {
            "namespace" => filter.namespace = Some(value),
            "scope" => filter.scope = Some(value),
            "key" => filter.key = Some(value),
            "route" => filter.route = Some(value),
            "state" => filter.state = Some(state(&value)?),
            "older_than" => filter.older_than = Some(duration(&value)?),
            "limit" => self.limit = limit(&value)?,
            "cursor" => self.cursor = Some(unseal(&value)?),
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
}

const NAMES: [&str; 8] = ["namespace", "scope", "key", "state", "route", "older_than", "limit", "cursor"];

fn unknown(name: &str) -> Refused {
    Refused::bad_request(format!("`{name}` is no parameter of this listing; allowed: {}.", NAMES.join(", ")))
}

fn state(value: &str) -> Result<State, Refused> {
    let allowed = State::ALL.map(State::name).join(", ");
    value.parse().map_err(|()| Refused::bad_request(format!("`state` is `{value}`; allowed: {allowed}.")))
}

fn duration(value: &str) -> Result<std::time::Duration, Refused> {
    humantime::parse_duration(value).map_err(|_| {
        Refused::bad_request(format!("`older_than` is `{value}`; allowed: a duration like 90s, 10m, 48h, 30d."))
    })
}

fn limit(value: &str) -> Result<u32, Refused> {
    let limit = value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| Refused::bad_request(format!("`limit` is `{value}`; allowed: 1 to {MAX_LIMIT}.")))
}

/// A cursor as clients get it: the store's own text behind a check of it. Stores needn't tell a mangled cursor from their
/// other failures, and an operator is told to fix the request rather than to wait for the store.
pub(crate) fn seal(Cursor(text): &Cursor) -> String {
    let check = Sha256::digest(text.as_bytes());
    format!("{:02x}{:02x}{:02x}{:02x}-{text}", check[0], check[1], check[2], check[3])
}

fn unseal(sealed: &str) -> Result<Cursor, Refused> {
    let cursor = sealed.split_once('-').map(|(_, text)| Cursor(text.to_owned()));
    let genuine = cursor.filter(|cursor| seal(cursor) == sealed);
    genuine.ok_or_else(|| {
        Refused::bad_request("`cursor` is not one that a listing gave as `next`; leave it out to begin anew.")
    })
}
