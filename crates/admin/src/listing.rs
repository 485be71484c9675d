//! The query of `GET /api/records`, read strictly: a misspelt filter would show, or lead an operator to change, records
//! that were not meant.

use oncekey_core::State;
use oncekey_store::{Cursor, Filter};
use sha2::{Digest, Sha256};

use crate::answer::Refused;

/// Records or lines of a part, unless asked otherwise.
pub(crate) const DEFAULT_LIMIT: u32 = 100;
const MAX_LIMIT: u32 = 1000;

/// A listing that was asked for.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) filter: Filter,
    pub(crate) cursor: Option<Cursor>,
    pub(crate) limit: u32,
}

impl Listing {
    /// Reads the decoded pairs of a query.
    pub(crate) fn parse(pairs: Vec<(String, String)>) -> Result<Self, Refused> {
        let mut listing = Self { filter: Filter::default(), cursor: None, limit: DEFAULT_LIMIT };
        for (name, value) in distinct(pairs, &NAMES)? {
            match name.as_str() {
                "limit" => listing.limit = limit(&value)?,
                "cursor" => listing.cursor = Some(unseal(PART_OF, &value)?),
                _ => set_filter(&mut listing.filter, &name, value)?,
            }
        }
        Ok(listing)
    }
}

/// The pairs of a query that have a value; an empty one is none. A name may come once, and must be one of `names`.
pub(crate) fn distinct(pairs: Vec<(String, String)>, names: &[&str]) -> Result<Vec<(String, String)>, Refused> {
    let mut kept: Vec<(String, String)> = Vec::new();
    let mut seen = Vec::new();
    for (name, value) in pairs {
        if seen.contains(&name) {
            return Err(Refused::bad_request(format!("`{name}` is given twice.")));
        }
        if !names.contains(&name.as_str()) {
            return Err(unknown(&name, names));
        }
        if value.contains('\0') {
            return Err(Refused::bad_request(format!("`{name}` holds a NUL character, which no record does.")));
        }
        seen.push(name.clone());
        if !value.is_empty() {
            kept.push((name, value));
        }
    }
    Ok(kept)
}

/// Sets one member of a filter by the text that was given for it.
pub(crate) fn set_filter(filter: &mut Filter, name: &str, value: String) -> Result<(), Refused> {
    match name {
        "namespace" => filter.namespace = Some(value),
        "scope" => filter.scope = Some(value),
        "key" => filter.key = Some(value),
        "route" => filter.route = Some(value),
        "state" => filter.state = Some(state(&value)?),
        "older_than" => filter.older_than = Some(duration(&value)?),
        _ => return Err(unknown(name, &NAMES)),
    }
    Ok(())
}

/// What a cursor of this listing is sealed as.
pub(crate) const PART_OF: &str = "records";

const NAMES: [&str; 8] = ["namespace", "scope", "key", "state", "route", "older_than", "limit", "cursor"];

fn unknown(name: &str, names: &[&str]) -> Refused {
    Refused::bad_request(format!("`{name}` is no parameter of this listing; allowed: {}.", names.join(", ")))
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

/// Reads how many a part may have.
pub(crate) fn limit(value: &str) -> Result<u32, Refused> {
    let limit = value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| Refused::bad_request(format!("`limit` is `{value}`; allowed: 1 to {MAX_LIMIT}.")))
}

/// A cursor as clients get it: the store's own text behind a check of it. Stores needn't tell a mangled cursor from their
/// other failures, and an operator is told to fix the request rather than to wait for the store. `part_of` keeps the cursors
/// of one listing from another.
pub(crate) fn seal(part_of: &str, Cursor(text): &Cursor) -> String {
    let check = Sha256::digest(format!("{part_of} {text}"));
    format!("{:02x}{:02x}{:02x}{:02x}-{text}", check[0], check[1], check[2], check[3])
}

/// Reads what [`seal`] made.
pub(crate) fn unseal(part_of: &str, sealed: &str) -> Result<Cursor, Refused> {
    let cursor = sealed.split_once('-').map(|(_, text)| Cursor(text.to_owned()));
    let genuine = cursor.filter(|cursor| seal(part_of, cursor) == sealed);
    genuine.ok_or_else(|| {
        Refused::bad_request("`cursor` is not one that a listing gave as `next`; leave it out to begin anew.")
    })
}
