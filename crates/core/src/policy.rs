//! The settings of a route that decide about its records (the HTTP layer has settings of its own beside them). What is done
//! about unknown outcomes, and what that costs the promise, is in `unknown`.

mod unknown;

use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode};

use crate::record::Lifetimes;

pub use unknown::{OnUnknown, Remedy, Shortfall};

/// What a route promises and allows. One per route, shared by all its requests.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The route's configured path, `*` where none is configured; the only route label in records and metrics.
    pub route: String,
    /// How long a record lives, and how long an execution may take.
    pub timing: Timing,
    /// Which answers are recorded, and what of them.
    pub recording: Recording,
    /// Waiters on one key (W3).
    pub max_waiters: usize,
    /// What happens to a request whose claim the store can't take.
    pub on_store_error: OnStoreError,
    /// What happens to unknown outcomes (E7).
    pub on_unknown: OnUnknown,
    /// An unknown outcome is followed by another execution only while the record has had fewer than this many.
    pub max_attempts: u32,
}

/// What happens to a request when the store can't be reached at claim time (D1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// It is refused with `store-unavailable`, and nothing is executed.
    #[default]
    Closed,
    /// It is let through without a claim and without a record, which lowers the promise to `best_effort` (G1).
    Open,
}

/// The durations of a route.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// From `completed` or `failed` to expiry (E9).
    pub ttl: Duration,
    /// From `unknown` to expiry (E9).
    pub unknown_ttl: Duration,
    /// How long a duplicate waits (W1).
    pub wait: Duration,
    /// What `Retry-After` says (W2).
    pub retry_after: Duration,
    /// How long the first request waits before it gets W2.
    pub answer_timeout: Duration,
    /// How long an execution may take, to the last byte; a streamed one to its head (E7).
    pub upstream_timeout: Duration,
    /// How long connecting to the upstream may take (E6).
    pub connect_timeout: Duration,
    /// How long the first answer may be held back for its recording (D3).
    pub record_timeout: Duration,
}

impl Timing {
    /// What a claim under this policy fixes in its record (E4).
    pub fn lifetimes(&self, lease: Duration) -> Lifetimes {
        Lifetimes { run: self.upstream_timeout.saturating_add(lease), ttl: self.ttl, unknown_ttl: self.unknown_ttl }
    }
}

/// Which upstream answers are recorded, and what of them.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Delivered, state `failed`: a retry runs again (E8).
    pub retry_status: StatusSet,
    /// Delivered, state `unknown` (E7).
    pub unknown_status: StatusSet,
    /// Largest body that is recorded, in bytes (R5).
    pub max_response: u64,
    /// Every response of the route is streamed and recorded without its body (R7).
    pub stream: bool,
    /// Record `Set-Cookie` too (R3).
    pub store_set_cookie: bool,
    /// Further header fields that are not recorded (R3).
    pub drop_headers: Vec<HeaderName>,
    /// The upstream may say itself what its answer means (E11).
    pub trust_outcome: bool,
}

impl Default for Timing {
    /// The built-in values of the protocol.
    fn default() -> Self {
        Self {
            ttl: Duration::from_hours(48),
            unknown_ttl: Duration::from_hours(30 * 24),
            wait: Duration::from_secs(1),
            retry_after: Duration::from_secs(2),
            answer_timeout: Duration::from_mins(1),
            upstream_timeout: Duration::from_mins(10),
            connect_timeout: Duration::from_secs(5),
            record_timeout: Duration::from_secs(5),
        }
    }
}

impl Default for Recording {
    /// The built-in values of the protocol.
    fn default() -> Self {
        Self {
            retry_status: StatusSet::of(&[401, 403, 408, 425, 429]),
            unknown_status: StatusSet::of(&[502, 504]),
            max_response: 1024 * 1024,
            stream: false,
            store_set_cookie: false,
            drop_headers: Vec::new(),
            trust_outcome: false,
        }
    }
}

impl Default for Policy {
    /// The built-in values of the protocol, for the route `*`.
    fn default() -> Self {
        Self {
            route: "*".to_owned(),
            timing: Timing::default(),
            recording: Recording::default(),
            max_waiters: 64,
            on_store_error: OnStoreError::default(),
            on_unknown: OnUnknown::Hold,
            max_attempts: 5,
        }
    }
}

/// A set of status codes, given as numbers and classes (`"5xx"`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusSet {
    codes: std::collections::BTreeSet<u16>,
}

impl StatusSet {
    /// The set of just these codes.
    pub fn of(codes: &[u16]) -> Self {
        Self { codes: codes.iter().copied().collect() }
    }

    /// Adds one code.
    pub fn insert(&mut self, code: u16) {
        self.codes.insert(code);
    }

    /// Adds the hundred codes of a class; `class` is 1 to 5.
    pub fn insert_class(&mut self, class: u16) {
        self.codes.extend(class * 100..class * 100 + 100);
    }

    /// Whether the set holds `code`.
    pub fn contains(&self, code: u16) -> bool {
        self.codes.contains(&code)
    }

    /// The codes, in order.
    pub fn codes(&self) -> impl Iterator<Item = u16> + '_ {
        self.codes.iter().copied()
    }
}

/// What a whole upstream answer means for its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Recorded and replayed.
    Completed,
    /// Recorded and replayed like `Completed`; what the handler wrote in the transaction of its record is rolled back (G3).
    /// Said of answers in transactional mode alone.
    Declined,
    /// Delivered; a retry runs again (E8).
    Failed,
    /// Delivered; nobody can tell whether it took effect (E7).
    Unknown,
}

impl Recording {
    /// Judges an answer by its status (E7, E8). A 503 that is listed in either set counts there with or without
    /// `Retry-After`; listed in neither, the upstream's own `Retry-After` makes it `Failed`, its absence `Unknown`.
    /// A status listed in both sets is `Unknown`: the safer reading.
    pub fn verdict(&self, status: StatusCode, has_retry_after: bool) -> Verdict {
        let code = status.as_u16();
        if self.unknown_status.contains(code) {
            Verdict::Unknown
        } else if self.retry_status.contains(code) {
            Verdict::Failed
        } else if code == 503 {
            if has_retry_after { Verdict::Failed } else { Verdict::Unknown }
        } else {
            Verdict::Completed
        }
    }

    /// Judges by its status an answer that was made in the transaction of its record (G3). There is nothing unknown about it:
    /// what isn't committed has no effect, so an answer that is listed in either set, and any 5xx, is `Failed`.
    pub fn verdict_in_transaction(&self, status: StatusCode) -> Verdict {
        let code = status.as_u16();
        if status.is_server_error() || self.retry_status.contains(code) || self.unknown_status.contains(code) {
            Verdict::Failed
        } else {
            Self::settled_by(status)
        }
    }

    /// The same where the handler gives its own `verdict` (E11): then a 5xx may be recorded, too.
    pub fn told_in_transaction(verdict: Verdict, status: StatusCode) -> Verdict {
        match verdict {
            Verdict::Completed | Verdict::Declined => Self::settled_by(status),
            Verdict::Failed | Verdict::Unknown => Verdict::Failed,
        }
    }

    /// What is recorded keeps its rows unless it says that it didn't do what it was asked for.
    fn settled_by(status: StatusCode) -> Verdict {
        if status.is_client_error() || status.is_server_error() { Verdict::Declined } else { Verdict::Completed }
    }

    /// The upstream's own verdict in `Oncekey-Outcome`, which goes before [`Recording::verdict`] (E11). `None` where it isn't
    /// trusted or says nothing; an error where what it says can't be understood, which counts as nothing too.
    pub fn told(&self, headers: &HeaderMap) -> Result<Option<Verdict>, UnknownWord> {
        let mut lines = headers.get_all(OUTCOME).iter();
        let (Some(line), more) = (lines.next().filter(|_| self.trust_outcome), lines.next()) else { return Ok(None) };
        match (line.as_bytes().trim_ascii(), more) {
            (b"completed", None) => Ok(Some(Verdict::Completed)),
            (b"failed", None) => Ok(Some(Verdict::Failed)),
            (b"unknown", None) => Ok(Some(Verdict::Unknown)),
            _ => Err(UnknownWord),
        }
    }
}

/// The field in which an upstream gives its own verdict (E11).
pub(crate) const OUTCOME: HeaderName = HeaderName::from_static("oncekey-outcome");

/// `Oncekey-Outcome` holds none of its words, or several lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`Oncekey-Outcome` is none of completed, failed, unknown on one line")]
pub struct UnknownWord;
