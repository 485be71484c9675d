//! What a write makes of a record: the read-modify-write of every store, as pure functions.
//!
//! A store that can run Rust between its read and its write (memory, SQLite) calls these, so that two such stores can't
//! differ. They fill in times and counts around [`oncekey_core::transition`], which alone decides what is allowed.
//! Reading, writing and making the two atomic is left to the store.

use oncekey_core::record::Times;
use oncekey_core::{Event, Record, Refusal, Standing, State, Timestamp, Token, standing, transition};

use crate::{Acted, AuditLine, Change, Claim, Deed, Operator, Order, Resolution, Subject};

/// What a claim comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnClaim {
    /// Granted once this record is stored, without a response, in place of the one that was found.
    Put(Box<Record>),
    /// Granted already: the claim's own token governs the record (D2).
    Own {
        /// The attempt that was granted.
        attempt: u32,
    },
    /// The record that was found is in the way.
    Held,
}

/// Carries out a claim on what was found: the record under the claim's identity, and whether its owner's heartbeat is
/// valid at `now`.
pub fn on_claim(found: Option<(&Record, bool)>, claim: &Claim, now: Timestamp) -> OnClaim {
    let Some((record, owner_alive)) = found else {
        return put_claim(None, claim, now);
    };
    if record.token == claim.token && record.state == State::Processing {
        return OnClaim::Own { attempt: record.attempts };
    }
    let Some(replaces) = claim.replaces else { return OnClaim::Held };
    // The claimant judged the claim lapsed from an earlier reading; a heartbeat may have come since, and a claim that is
    // valid is never taken over (E1).
    let live = record.state == State::Processing && is_live(record, owner_alive, now);
    if live || replaces.token != record.token || replaces.state != record.state {
        return OnClaim::Held;
    }
    put_claim(Some(record).filter(|_| !replaces.expired), claim, now)
}

/// `earlier` is the record of the same operation's earlier attempt.
fn put_claim(earlier: Option<&Record>, claim: &Claim, now: Timestamp) -> OnClaim {
    let Ok(state) = transition(earlier.map(|record| record.state), Event::Claim, true) else { return OnClaim::Held };
    OnClaim::Put(Box::new(Record {
        identity: claim.identity.clone(),
        state,
        token: claim.token,
        owner: claim.owner,
        // Another attempt keeps the fingerprint and with it the recipe (F9): the claimant found its request equal.
        fingerprint: earlier.map_or_else(|| claim.fingerprint.clone(), |record| record.fingerprint.clone()),
        origin: claim.origin.clone(),
        lifetimes: claim.lifetimes,
        times: Times {
            created: earlier.map_or(now, |record| record.times.created),
            started: now,
            ended: None,
            deadline: now.after(claim.lifetimes.run),
            expires: None,
        },
        response_status: None,
        attempts: earlier.map_or(1, |record| record.attempts.saturating_add(1)),
        replays: earlier.map_or(0, |record| record.replays),
    }))
}

/// What an owner's outcome comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnOutcome {
    /// Written once this record is stored, with the outcome's response.
    Put(Box<Record>),
    /// An earlier try got through; the record expires then (D3).
    Already(Timestamp),
    /// The writer's token, or the record's state, doesn't allow it.
    Fenced,
}

/// Writes the outcome `event` of the claim `token` into a record; `status` is that of the outcome's response.
pub fn on_outcome(record: &Record, token: Token, event: Event, status: Option<u16>, now: Timestamp) -> OnOutcome {
    match transition(Some(record.state), event, record.token == token) {
        Ok(state) => OnOutcome::Put(Box::new(end(record, state, status, now))),
        Err(Refusal::AlreadyWritten) => record.times.expires.map_or(OnOutcome::Fenced, OnOutcome::Already),
        Err(Refusal::Fenced | Refusal::State) => OnOutcome::Fenced,
    }
}

/// A record that stops processing, or changes how it stopped, at `now`.
fn end(record: &Record, state: State, status: Option<u16>, now: Timestamp) -> Record {
    let kept = if state == State::Unknown { record.lifetimes.unknown_ttl } else { record.lifetimes.ttl };
    let mut ended = record.clone();
    ended.state = state;
    ended.response_status = status;
    ended.times.ended = Some(now);
    ended.times.expires = Some(now.after(kept));
    ended
}

/// The state a record counts as at `now`, by a clock that is trusted; `None` once it has expired.
pub fn counts_as(record: &Record, owner_alive: bool, now: Timestamp) -> Option<State> {
    match standing(record, now, owner_alive, true) {
        Standing::Absent => None,
        Standing::Processing => Some(State::Processing),
        Standing::Completed => Some(State::Completed),
        Standing::Failed => Some(State::Failed),
        Standing::Unknown => Some(State::Unknown),
    }
}

/// Whether the claim that governs a `processing` record is valid at `now`; no other state has a live claim.
pub fn is_live(record: &Record, owner_alive: bool, now: Timestamp) -> bool {
    standing(record, now, owner_alive, false) == Standing::Processing
}

/// The record after its lapse was noticed at `now`; `None` if its claim is valid or it isn't `processing`.
pub fn on_lapse(record: &Record, owner_alive: bool, now: Timestamp) -> Option<Record> {
    if is_live(record, owner_alive, now) {
        return None;
    }
    let state = transition(Some(record.state), Event::Lapse, true).ok()?;
    // Noticed late, it still became unknown at its deadline: what it counts as mustn't depend on when it was swept.
    let lapsed_at = now.min(record.times.deadline);
    Some(end(record, state, None, lapsed_at))
}

/// What an order comes to for one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnOrder {
    /// Done once this record is stored, with the resolution's response, and this line, if any.
    Put(Box<Record>, Option<AuditLine>),
    /// Done once the record is deleted and this line, if any, is stored.
    Delete(Option<AuditLine>),
    /// Nothing is to be stored.
    Answer(Acted),
}

/// Carries out an order on a record at `now` (A3).
pub fn on_order(record: &Record, owner_alive: bool, order: &Order, now: Timestamp) -> OnOrder {
    let matches = || order.only.as_ref().is_none_or(|only| only.matches(record, owner_alive, now));
    match &order.deed {
        // An earlier try of this very order: only it can have installed its token.
        Deed::Resolve(Resolution::Completed { token, .. })
            if record.state == State::Completed && record.token == *token =>
        {
            OnOrder::Answer(Acted::Done)
        }
        _ if !matches() => OnOrder::Answer(Acted::Unmatched),
        Deed::Resolve(resolution) => on_resolution(record, owner_alive, resolution, order.operator.as_ref(), now),
        Deed::Purge if is_live(record, owner_alive, now) => OnOrder::Answer(Acted::Live),
        Deed::Purge => {
            // It isn't live, so what is still stored as running counts as unknown.
            let before = if record.state == State::Processing { State::Unknown } else { record.state };
            OnOrder::Delete(line(record, order.operator.as_ref(), before, None, now))
        }
    }
}

/// Resolves a record that is, or counts as, `unknown` at `now` (A3).
fn on_resolution(
    record: &Record,
    owner_alive: bool,
    resolution: &Resolution,
    operator: Option<&Operator>,
    now: Timestamp,
) -> OnOrder {
    let (event, status, token) = match resolution {
        Resolution::Completed { response, token } => (Event::ResolveCompleted, Some(response.status.as_u16()), *token),
        Resolution::Failed => (Event::ResolveFailed, None, record.token),
    };
    let Some(counts_as) = counts_as(record, owner_alive, now) else {
        return OnOrder::Answer(Acted::NotFound);
    };
    // What only counts as unknown becomes it first; the lapse is a transition of its own.
    let lapsed = on_lapse(record, owner_alive, now);
    let record = lapsed.as_ref().unwrap_or(record);
    match transition(Some(record.state), event, true) {
        Ok(state) => {
            let resolved = Record { token, ..end(record, state, status, now) };
            let line = line(&resolved, operator, counts_as, Some(state), now);
            OnOrder::Put(Box::new(resolved), line)
        }
        Err(_) => OnOrder::Answer(Acted::NotUnknown(counts_as)),
    }
}

fn line(
    record: &Record,
    operator: Option<&Operator>,
    before: State,
    after: Option<State>,
    now: Timestamp,
) -> Option<AuditLine> {
    let identity = &record.identity;
    let subject = Subject {
        id: identity.id(),
        namespace: identity.namespace.as_str().to_owned(),
        scope_source: identity.scope.source().to_owned(),
        scope: identity.scope.value().to_owned(),
        key: identity.key.as_str().to_owned(),
        route: record.origin.route.clone(),
    };
    let response_status = record.response_status.filter(|_| after.is_some());
    let change = Change::Record { subject, before, after, response_status };
    operator.map(|operator| AuditLine { at: now, operator: operator.clone(), change })
}
