//! The record of one operation, and what it counts as at a given moment (rules E4, E5, E9).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{Fingerprint, Identity, OwnerId, Timestamp, Token};

/// The states of a record (E5), as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A claim was granted and its outcome isn't recorded yet.
    Processing,
    /// The outcome is recorded and is replayed until the record expires.
    Completed,
    /// Known that nothing took effect, or a retry may run: the same request runs again, another one is `key-reused`.
    Failed,
    /// It may have taken effect, and nobody can tell.
    Unknown,
}

impl State {
    /// All states, in the order in which a record usually meets them.
    pub const ALL: [Self; 4] = [Self::Processing, Self::Completed, Self::Failed, Self::Unknown];

    /// The state's name in SQL, the admin API, metrics and the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for State {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|state| state.name() == text).ok_or(())
    }
}

/// One record as a store reports it. The recorded response travels beside it, not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Namespace, scope and key.
    pub identity: Identity,
    /// The state as stored; [`standing`] says what it counts as now.
    pub state: State,
    /// The claim that governs the record (E4).
    pub token: Token,
    /// The process that made that claim.
    pub owner: OwnerId,
    /// The request's fingerprint and the recipe it was made by (F9).
    pub fingerprint: Fingerprint,
    /// Which request made the record.
    pub origin: Origin,
    /// How long the record lives in which state.
    pub lifetimes: Lifetimes,
    /// When what happened.
    pub times: Times,
    /// Status of the recorded response, where there is one.
    pub response_status: Option<u16>,
    /// Executions granted so far, this one included.
    pub attempts: u32,
    /// Replays counted so far. Nodes add to it in batches, so it trails by about a second and a crash loses the rest.
    pub replays: u64,
}

/// The request that made a record, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The configured path of the route (never the request's), `*` where none is configured.
    pub route: String,
    /// The request's method.
    pub method: String,
    /// The request's path, without its query.
    pub path: String,
}

/// The lifetimes that a claim fixes in its record, so that any node can age it without knowing the route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// From the claim to the record's own deadline: `upstream_timeout` + `lease` (E4).
    pub run: Duration,
    /// From `completed` or `failed` to expiry (E9).
    pub ttl: Duration,
    /// From `unknown` to expiry (E9).
    pub unknown_ttl: Duration,
}

/// A record's points in time, all by the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// When the record was first claimed.
    pub created: Timestamp,
    /// When the governing claim was granted.
    pub started: Timestamp,
    /// When the record became `completed`, `failed` or `unknown`.
    pub ended: Option<Timestamp>,
    /// When the governing claim lapses, whatever its owner does (E4).
    pub deadline: Timestamp,
    /// When the record counts as absent; `None` while `processing` (E9).
    pub expires: Option<Timestamp>,
}

/// What a record counts as at a given moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Expired: counts as absent at once, swept or not (E9).
    Absent,
    /// Someone who is alive executes it.
    Processing,
    /// See [`State::Completed`].
    Completed,
    /// See [`State::Failed`].
    Failed,
    /// Recorded as unknown, or `processing` under an owner or a deadline that has passed (E4).
    Unknown,
}

/// Judges a record at `now`, a reading of the store's clock. `owner_alive` is whether the owner's heartbeat was valid at
/// `now`. With `trust_clock` false (the store's clock ran ahead, E9) nothing counts as expired.
pub fn standing(record: &Record, now: Timestamp, owner_alive: bool, trust_clock: bool) -> Standing {
    let lapsed = now >= record.times.deadline || !owner_alive;
    let expires = match record.state {
        // Nobody wrote the lapse down yet, so the deadline is the earliest moment that is certain on every node.
        State::Processing if lapsed => Some(record.times.deadline.after(record.lifetimes.unknown_ttl)),
        // Whatever the store says: what runs never expires, else it would run twice.
        State::Processing => None,
        State::Completed | State::Failed | State::Unknown => record.times.expires,
    };
    if trust_clock && expires.is_some_and(|expires| now >= expires) {
        return Standing::Absent;
    }
    match record.state {
        State::Processing if lapsed => Standing::Unknown,
        State::Processing => Standing::Processing,
        State::Completed => Standing::Completed,
        State::Failed => Standing::Failed,
        State::Unknown => Standing::Unknown,
    }
}
