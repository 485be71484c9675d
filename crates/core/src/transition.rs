//! The one transition function: which event may move a record from which state to which (rules E4, E5, A3).

use crate::State;

/// What may happen to a record. Claims and outcomes are the owner's, lapses are noticed by anyone, resolutions and
/// purges are an operator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A claim is granted; the compare is on the token and state that the claimant saw.
    Claim,
    /// The owner records an outcome that will be replayed.
    Complete,
    /// The owner records that nothing took effect, or an answer after which a retry may run.
    Fail,
    /// The owner records that it can't tell.
    WriteOff,
    /// The claim lapsed: its owner is gone or its deadline has passed.
    Lapse,
    /// An operator, or the upstream when asked (E7), says how it ended. Installs a new token, so that a late outcome is fenced.
    ResolveCompleted,
    /// An operator says that nothing took effect. Leaves the token, so that a late outcome still counts until a retry claims.
    ResolveFailed,
}

impl Event {
    /// All events.
    pub const ALL: [Self; 7] = [
        Self::Claim,
        Self::Complete,
        Self::Fail,
        Self::WriteOff,
        Self::Lapse,
        Self::ResolveCompleted,
        Self::ResolveFailed,
    ];
}

/// Why an event doesn't move a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The writer's token isn't the record's: someone else governs it now (E4). Counted as a fenced write.
    Fenced,
    /// The writer's own earlier write got through; nothing is left to do (D2, D3).
    AlreadyWritten,
    /// The record's state doesn't allow it.
    State,
}

/// The state after `event`, or why it is refused. `from` is the state as stored, `None` for no record: what only counts as
/// unknown is moved by [`Event::Lapse`] before an operator's verdict can apply to it. `matches` is whether what the writer
/// holds is still the record's: its token and, for a claim, also the state that it saw (the token alone would let a claim
/// replace an outcome that came late under the same token).
pub fn transition(from: Option<State>, event: Event, matches: bool) -> Result<State, Refusal> {
    use State::{Completed, Failed, Processing, Unknown};
    let Some(from) = from else {
        return if event == Event::Claim { Ok(Processing) } else { Err(Refusal::State) };
    };
    if !matches {
        return Err(Refusal::Fenced);
    }
    match (event, from) {
        // Whether a claim may replace this state was judged by the claimant from what it saw: failed, or expired. The match
        // proves that nothing changed since. `Processing` is replaced only when it has lapsed: by a takeover, or expired.
        (Event::Claim, Completed | Failed | Unknown | Processing) => Ok(Processing),
        // A late outcome counts as long as nobody took the record over, also after an operator's `failed`.
        (Event::Complete, Processing | Unknown | Failed) | (Event::ResolveCompleted, Unknown) => Ok(Completed),
        (Event::Fail, Processing | Unknown) | (Event::ResolveFailed, Unknown) => Ok(Failed),
        (Event::WriteOff | Event::Lapse, Processing) => Ok(Unknown),
        (Event::Complete, Completed) | (Event::Fail, Failed) | (Event::WriteOff | Event::Lapse, Unknown) => {
            Err(Refusal::AlreadyWritten)
        }
        (Event::Fail, Completed)
        | (Event::WriteOff | Event::Lapse, Completed | Failed)
        | (Event::ResolveCompleted | Event::ResolveFailed, Processing | Completed | Failed) => Err(Refusal::State),
    }
}
