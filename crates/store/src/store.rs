//! The `Store` trait and the values that pass through it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oncekey_core::record::{Lifetimes, Origin};
use oncekey_core::{
    Event, Fingerprint, Identity, Namespace, OwnerId, PromiseClass, Record, RecordId, RecordedResponse, Scope, State,
    Timestamp, Token,
};

use crate::operating::{Acted, AuditFilter, AuditPage, Deed, Operator, Order, Purged, Resolution, Resolved};
use crate::{StoreError, change};

/// Keeps records. Shared by all tasks of a process, and usually by other processes too.
///
/// Every call may be repeated after an error with the same arguments and has its effect once: writes compare tokens, and
/// a write that finds its own earlier self reports it as written. Dropping a future neither cancels nor undoes a write
/// that has been handed over. Times are the store's own: a call that needs to be judged reports the `now` it was made at.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Inserts a record in state `processing`, or reports the one that is there (E1). Durable when it returns `Granted`
    /// (E2). With [`Claim::replaces`], a record that still bears that token and state is replaced by the claim, unless
    /// its own claim is valid again. Finding the claim's own token already in place in a `processing` record is
    /// `Granted`: the earlier acknowledgement was lost (D2).
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError>;

    /// Writes the outcome of the claim `token` if [`oncekey_core::transition`] allows it (E4). Durable when it returns
    /// `Written`.
    async fn record(&self, id: RecordId, token: Token, outcome: Outcome) -> Result<Recorded, StoreError>;

    /// Reads a record, with its response. `None` if there is none; an expired one is still reported.
    async fn read(&self, id: RecordId) -> Result<Option<Found>, StoreError>;

    /// Reads the records of several ids without their responses, for waiters whose record another node owns (W1).
    /// Ids without a record are left out.
    async fn peek(&self, ids: &[RecordId]) -> Result<Vec<Found>, StoreError>;

    /// Keeps the claims of `owner` valid until `lease` from now, and reports now (E4).
    async fn heartbeat(&self, owner: OwnerId, lease: Duration) -> Result<Timestamp, StoreError>;

    /// Ends the validity of `owner`'s claims at once: what it still has in `processing` counts as unknown (D4).
    async fn retire(&self, owner: OwnerId) -> Result<(), StoreError>;

    /// One bounded step of sweeping (D5): marks at most `limit` lapsed `processing` records `unknown` and deletes at most
    /// `limit` records that expired by `now`, and at most `limit` lines of the trail that are over its bounds. `now` is a reading of the store's clock that the caller trusts (E9).
    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<Swept, StoreError>;

    /// How many records a scope has, at most `limit`: that many, or more. Expired ones count until they are swept. Bounded by
    /// `limit`, whatever else is stored; a store may make what it needs for that at the first call, which can take long then.
    async fn count_scope(&self, namespace: &Namespace, scope: &Scope, limit: u64) -> Result<u64, StoreError>;

    /// Adds to the replay counts of records; ids without a record are passed over.
    async fn count_replays(&self, replays: &[(RecordId, u32)]) -> Result<(), StoreError>;

    /// Lists records that match, newest governing claim first, at most `limit`, from `cursor` on. Reported as stored;
    /// the filter's state is compared with what a record counts as ([`oncekey_core::standing`]).
    async fn list(&self, filter: &Filter, cursor: Option<Cursor>, limit: u32) -> Result<Page, StoreError>;

    /// Carries out an order on up to [`TOGETHER`](crate::TOGETHER) different records in one transaction, together with the
    /// lines of the trail that it leaves, and says of each, in the order of `ids`, what became of it. What can't be done to one
    /// record doesn't keep it from the others. More of them are refused, as `NotApplied`.
    async fn operate(&self, ids: &[RecordId], order: &Order) -> Result<Vec<Acted>, StoreError>;

    /// Adds to the trail that an operator had a sweep made, and what it did.
    async fn note_sweep(&self, swept: Swept, operator: &Operator) -> Result<(), StoreError>;

    /// Lists the trail, newest line first, at most `limit`, from `cursor` on. Sweeping shortens it to [`AUDIT_LINES`] and
    /// [`AUDIT_AGE`].
    ///
    /// [`AUDIT_LINES`]: crate::AUDIT_LINES
    /// [`AUDIT_AGE`]: crate::AUDIT_AGE
    async fn audit(&self, filter: &AuditFilter, cursor: Option<Cursor>, limit: u32) -> Result<AuditPage, StoreError>;

    /// A verdict on a record that is, or counts as, `unknown`, that no operator answers for: what the upstream says of it (E7).
    async fn resolve(&self, id: RecordId, resolution: Resolution) -> Result<Resolved, StoreError> {
        match alone(&self.operate(&[id], &Order::unsigned(Deed::Resolve(resolution))).await?) {
            Acted::Done => Ok(Resolved::Done),
            Acted::NotUnknown(state) => Ok(Resolved::NotUnknown(state)),
            Acted::NotFound | Acted::Live | Acted::Unmatched => Ok(Resolved::NotFound),
        }
    }

    /// Deletes a record unless it is `processing` under a live claim, and leaves no line in the trail.
    async fn purge(&self, id: RecordId) -> Result<Purged, StoreError> {
        match alone(&self.operate(&[id], &Order::unsigned(Deed::Purge)).await?) {
            Acted::Done => Ok(Purged::Done),
            Acted::Live => Ok(Purged::Live),
            Acted::NotFound | Acted::NotUnknown(_) | Acted::Unmatched => Ok(Purged::NotFound),
        }
    }

    /// Counts and sizes. A lapsed claim counts as `unknown`, swept or not; an expired record counts until it is swept. May scan.
    async fn stats(&self) -> Result<Stats, StoreError>;

    /// The figures that are watched all the time. Bounded, however much is stored: it may be asked every few seconds, by every
    /// node. Where counting would not be bounded, the counts are estimates.
    async fn gauges(&self) -> Result<Gauges, StoreError>;

    /// What the store can promise under its present settings (G1), worked out anew at each call.
    async fn promise(&self) -> Result<Promise, StoreError>;

    /// What this store is, for people: kind and place, without credentials.
    fn describe(&self) -> String;
}

/// What became of the only record of an order.
fn alone(acted: &[Acted]) -> Acted {
    acted.first().copied().unwrap_or(Acted::NotFound)
}

/// A claim to be made. The token is chosen before the first try and stays the same when the call is repeated.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Namespace, scope and key.
    pub identity: Identity,
    /// 128 random bits, new for each claim.
    pub token: Token,
    /// The claiming process.
    pub owner: OwnerId,
    /// The request's fingerprint.
    pub fingerprint: Fingerprint,
    /// The request, as operators see it.
    pub origin: Origin,
    /// Fixed in the record; the deadline is the store's now plus `run`.
    pub lifetimes: Lifetimes,
    /// The record that this claim may replace, as the claimant saw and judged it.
    pub replaces: Option<Replaces>,
}

/// What a claimant saw of the record it means to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaces {
    /// The token it bore.
    pub token: Token,
    /// The state it was in.
    pub state: State,
    /// True when it had expired: the new record starts afresh (created now, first attempt, no replays). False for another
    /// attempt at the same operation: `created`, `attempts`, `replays` and the fingerprint with its recipe (F9) go on.
    pub expired: bool,
}

/// The result of a claim.
#[derive(Clone, Debug)]
pub enum Claimed {
    /// The caller owns the record.
    Granted {
        /// Executions granted so far, this one included.
        attempt: u32,
        /// The store's time of the claim.
        now: Timestamp,
    },
    /// Someone else's record is in the way.
    Held(Box<Found>),
}

/// A record as it was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The record as stored.
    pub record: Record,
    /// Its response, if it has one and the call reads it. Shared, since many waiters may get it.
    pub response: Option<Arc<RecordedResponse>>,
    /// Whether the owner's heartbeat was valid at `now`.
    pub owner_alive: bool,
    /// The store's time of the reading.
    pub now: Timestamp,
}

/// What an owner writes at the end of a claim.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// [`Event::Complete`], [`Event::Fail`] or [`Event::WriteOff`]; no other event ends a claim.
    pub event: Event,
    /// The answer, if there is one: always with `Complete`, with `Fail` for an answer after which a retry may run.
    pub response: Option<Arc<RecordedResponse>>,
}

/// The result of writing an outcome.
#[derive(Clone, Debug)]
pub enum Recorded {
    /// It stands, now or since an earlier try.
    Written {
        /// When the record expires.
        expires: Timestamp,
        /// The store's time of the write.
        now: Timestamp,
    },
    /// Refused: the record bears another token or a state that doesn't allow it, or is gone.
    Fenced(Option<Box<Found>>),
}

/// What one step of sweeping did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Expired records deleted.
    pub deleted: u64,
    /// Lapsed claims marked `unknown`.
    pub lapsed: u64,
    /// Whether a limit was reached, so that another step is worth making at once.
    pub more: bool,
}

/// Which records to list. Empty: all.
///
/// `older_than` goes by the governing claim, so that a bulk purge can't meet an operation that was just tried again.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only this scope value, of any source.
    pub scope: Option<String>,
    /// Only this key.
    pub key: Option<String>,
    /// Only records that count as this state now.
    pub state: Option<State>,
    /// Only this route.
    pub route: Option<String>,
    /// Only records claimed at least this long ago.
    pub older_than: Option<Duration>,
}

impl Filter {
    /// Whether a record matches at `now`; what has expired by then counts as no state at all.
    pub fn matches(&self, record: &Record, owner_alive: bool, now: Timestamp) -> bool {
        let is = |wanted: &Option<String>, text: &str| wanted.as_deref().is_none_or(|wanted| wanted == text);
        is(&self.namespace, record.identity.namespace.as_str())
            && is(&self.scope, record.identity.scope.value())
            && is(&self.key, record.identity.key.as_str())
            && is(&self.route, &record.origin.route)
            && self.older_than.is_none_or(|age| record.times.started.after(age) <= now)
            && self.state.is_none_or(|state| change::counts_as(record, owner_alive, now) == Some(state))
    }
}

/// Where a listing goes on. Opaque to callers; stores write and read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

/// A part of a listing.
#[derive(Clone, Debug)]
pub struct Page {
    /// The records of this part.
    pub records: Vec<Listed>,
    /// Where the next part begins; `None` at the end.
    pub next: Option<Cursor>,
}

/// A record in a listing.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The record as stored.
    pub record: Record,
    /// Whether the owner's heartbeat was valid at `now`.
    pub owner_alive: bool,
    /// The store's time of the listing.
    pub now: Timestamp,
}

/// Counts and sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records by state; every state is there.
    pub records: BTreeMap<&'static str, u64>,
    /// Bytes that the store takes.
    pub bytes: u64,
}

/// What is watched of a store, as of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Counts and sizes as in [`Store::stats`], as far as a bounded look can tell.
    pub stats: Stats,
    /// How long the oldest claim has been running that is still valid; `None` if none was seen.
    pub oldest_processing: Option<Duration>,
    /// How long ago the record expired that has been waiting longest to be swept; `None` if there is none.
    pub oldest_expired: Option<Duration>,
}

/// What a store can promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The class.
    pub class: PromiseClass,
    /// Each setting that keeps the class from being `at_most_once`, as a sentence; empty if none does.
    pub shortfalls: Vec<String>,
    /// Settings and values that the class rests on though they were declared and not read (G4).
    pub declared: BTreeMap<&'static str, &'static str>,
}
