//! What an operator sees: the JSON shapes of records, listings and statistics, shared by the API and the command line.
//! Keys and scopes are in them, since operators look for them; they belong in answers and never in logs (P2).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue};
use oncekey_core::response::RecordedBody;
use oncekey_core::{Fingerprint, PromiseClass, Record, RecordedResponse, Standing, State, Timestamp, standing};
use oncekey_store::{Found, Listed, Stats};
use serde::Serialize;

pub use crate::history::EventView;

/// A record as it counts at the moment of reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordView {
    /// Which operation it is.
    #[serde(flatten)]
    pub identity: IdentityView,
    /// What the record counts as: a lapsed `processing` is `unknown` (E4).
    pub state: &'static str,
    /// Which request made it.
    #[serde(flatten)]
    pub origin: OriginView,
    /// When what happened.
    #[serde(flatten)]
    pub times: TimesView,
    /// Status of the recorded response, where there is one.
    pub response_status: Option<u16>,
    /// Executions granted so far.
    pub attempts: u32,
    /// Replays counted so far; trails by about a second.
    pub replays: u64,
    /// The process that made the governing claim, in hex.
    pub owner: String,
}

/// The parts of a record's name, apart from each other (S3).
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct IdentityView {
    /// The operation id.
    pub id: String,
    /// The namespace.
    pub namespace: String,
    /// The scope's value.
    pub scope: String,
    /// Where the scope was read from.
    pub scope_source: String,
    /// The client's key, decoded.
    pub key: String,
}

impl std::fmt::Debug for IdentityView {
    /// The id only; debug output ends in logs (P2).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IdentityView({})", self.id)
    }
}

/// The request that made the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OriginView {
    /// The route's configured path.
    pub route: String,
    /// The request's method.
    pub method: String,
    /// The request's path.
    pub path: String,
    /// The digest of its fingerprint, in hex.
    pub fingerprint: String,
}

/// Points in time by the store's clock: RFC 3339, UTC, microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimesView {
    /// The first claim.
    pub created_at: String,
    /// The governing claim.
    pub started_at: String,
    /// When it became `completed` or `failed`; null while nobody knows how it ended.
    pub completed_at: Option<String>,
    /// When it counts as absent; null while `processing`.
    pub expires_at: Option<String>,
}

impl RecordView {
    /// The view of a record read at `now`, or `None` if it counts as absent. `owner_alive` and `trust_clock` as in
    /// [`standing`].
    pub fn of(record: &Record, now: Timestamp, owner_alive: bool, trust_clock: bool) -> Option<Self> {
        let state = match standing(record, now, owner_alive, trust_clock) {
            Standing::Absent => return None,
            Standing::Processing => State::Processing,
            Standing::Completed => State::Completed,
            Standing::Failed => State::Failed,
            Standing::Unknown => State::Unknown,
        };
        Some(Self {
            identity: identity(record),
            state: state.name(),
            origin: origin(record),
            times: times(record, state),
            response_status: record.response_status,
            attempts: record.attempts,
            replays: record.replays,
            owner: record.owner.to_string(),
        })
    }

    /// The view of a record that was read alone.
    pub fn of_found(found: &Found, trust_clock: bool) -> Option<Self> {
        Self::of(&found.record, found.now, found.owner_alive, trust_clock)
    }

    /// The view of a record in a listing.
    pub fn of_listed(listed: &Listed, trust_clock: bool) -> Option<Self> {
        Self::of(&listed.record, listed.now, listed.owner_alive, trust_clock)
    }
}

fn identity(record: &Record) -> IdentityView {
    let identity = &record.identity;
    IdentityView {
        id: identity.id().to_string(),
        namespace: identity.namespace.as_str().to_owned(),
        scope: identity.scope.value().to_owned(),
        scope_source: identity.scope.source().to_owned(),
        key: identity.key.as_str().to_owned(),
    }
}

fn origin(record: &Record) -> OriginView {
    OriginView {
        route: record.origin.route.clone(),
        method: record.origin.method.clone(),
        path: record.origin.path.clone(),
        fingerprint: hex(&record.fingerprint),
    }
}

fn times(record: &Record, counts_as: State) -> TimesView {
    let times = &record.times;
    let ended = times.ended.filter(|_| matches!(counts_as, State::Completed | State::Failed));
    // A lapse that nobody wrote down yet has no expiry on record; it is counted from the claim's deadline (`standing`).
    let lapsed = (counts_as == State::Unknown).then(|| times.deadline.after(record.lifetimes.unknown_ttl));
    TimesView {
        created_at: rfc3339(times.created),
        started_at: rfc3339(times.started),
        completed_at: ended.map(rfc3339),
        expires_at: times.expires.or(lapsed).map(rfc3339),
    }
}

fn hex(fingerprint: &Fingerprint) -> String {
    let digits = fingerprint.digest().iter().flat_map(|byte| [byte >> 4, byte & 0x0f]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// What lies beyond the calendar is shown as its end.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    let time = jiff::Timestamp::from_microsecond(time.as_micros()).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.6}")
}

/// A record that is shown alone: with its story, and with what a retry gets where that was asked for (A4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordDetail {
    /// The record.
    #[serde(flatten)]
    pub record: RecordView,
    /// What happened to it, oldest first.
    pub history: Vec<EventView>,
    /// The recorded response; null where there is none, absent where it wasn't asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Option<ResponseView>>,
}

/// What a change by hand did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedView {
    /// Records that matched and could be changed when they were looked for.
    pub matched: usize,
    /// Those that were changed. Fewer than `matched`: the others changed meanwhile, and were left.
    pub changed: usize,
    /// The first hundred of those that were changed; in a dry run, that matched.
    pub ids: Vec<String>,
    /// Whether there may be more, for which the call has to be made again.
    pub more: bool,
    /// What the next retry with the key of a changed record gets.
    pub retry: String,
}

/// A recorded response, in the shape in which a verdict takes one ([`crate::resolution`]).
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct ResponseView {
    /// The status.
    pub status: u16,
    /// The header lines, those of one name in their order.
    pub headers: Vec<(String, String)>,
    /// The body.
    #[serde(flatten)]
    pub body: BodyView,
    /// The trailers in their order, each as `[name, value]`; not there when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trailers: Vec<(String, String)>,
}

impl std::fmt::Debug for ResponseView {
    /// The status only (P2).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ResponseView({})", self.status)
    }
}

/// A recorded body; the member's name tells how it is written.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyView {
    /// UTF-8.
    Body(String),
    /// Any other bytes, in base64.
    BodyBase64(String),
    /// `false`: the body was streamed and not kept (R5). A verdict doesn't take this member, so that a response without
    /// its body can't be mistaken for an empty one.
    BodyStored(bool),
}

impl ResponseView {
    /// The view of a recorded response. Header values that are not UTF-8 are shown with replacement characters.
    pub fn of(response: &RecordedResponse) -> Self {
        let body = match &response.body {
            RecordedBody::NotStored => BodyView::BodyStored(false),
            RecordedBody::Stored(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => BodyView::Body(text.to_owned()),
                Err(_) => BodyView::BodyBase64(STANDARD.encode(bytes)),
            },
        };
        let (headers, trailers) = (header_lines(&response.headers), header_lines(&response.trailers));
        Self { status: response.status.as_u16(), headers, body, trailers }
    }
}

fn header_lines(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

/// A part of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListView {
    /// The records, newest claim first.
    pub records: Vec<RecordView>,
    /// The cursor of the next part; null at the end.
    pub next: Option<String>,
}

/// A scope, and how often it sent a key with another request (F8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatching {
    /// The scope's value.
    pub scope: String,
    /// Its mismatches since the node's start: this many, or fewer by up to `over`.
    pub count: u64,
    /// How many of them may be another scope's.
    pub over: u64,
}

/// The classes in force (G1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    lowest: PromiseClass,
    routes: BTreeMap<String, PromiseClass>,
    declared: BTreeMap<&'static str, &'static str>,
}

impl Classes {
    /// The classes of routes on a store that promises `store`, which is what counts where no route is known.
    pub fn new(store: PromiseClass, routes: BTreeMap<String, PromiseClass>) -> Self {
        Self { lowest: routes.values().copied().min().unwrap_or(store), routes, declared: BTreeMap::new() }
    }

    /// The same, resting on these settings and values of the store that were declared and not read (G4).
    #[must_use]
    pub fn resting_on(self, declared: BTreeMap<&'static str, &'static str>) -> Self {
        Self { declared, ..self }
    }

    /// The settings of the store that were declared and not read, with their values.
    pub const fn declared(&self) -> &BTreeMap<&'static str, &'static str> {
        &self.declared
    }

    /// The lowest class in force.
    pub const fn lowest(&self) -> PromiseClass {
        self.lowest
    }
}

/// Counts and sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatsView {
    /// Records by stored state.
    pub records: BTreeMap<&'static str, u64>,
    /// Bytes that the store takes.
    pub bytes: u64,
    /// The lowest class in force.
    pub class: &'static str,
    /// The class of each route, as far as routes are known.
    pub classes: BTreeMap<String, &'static str>,
    /// What the classes rest on though it was declared and not read (G4); absent if that is nothing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub declared: BTreeMap<&'static str, &'static str>,
    /// Kind and place of the store, without credentials.
    pub store: String,
    /// The version that answers.
    pub version: String,
}

impl StatsView {
    /// The view of what a store counted; `store` is its [`oncekey_store::Store::describe`].
    pub fn of(stats: Stats, classes: &Classes, store: String, version: &str) -> Self {
        Self {
            records: stats.records,
            bytes: stats.bytes,
            class: classes.lowest.name(),
            classes: classes.routes.iter().map(|(route, class)| (route.clone(), class.name())).collect(),
            declared: classes.declared.clone(),
            store,
            version: version.to_owned(),
        }
    }
}
