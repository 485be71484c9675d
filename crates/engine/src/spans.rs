//! The engine's `tracing` spans: claim, wait, execute, record. What becomes of them is the program's.
//!
//! They tell where a call's time went and how each step ended. An attribute is an operation id, a route as configured, a number or
//! a word from a short list; never a key, a scope or anything of a body (P2).

use oncekey_core::policy::Verdict;
use oncekey_core::{Event, RecordId};
use oncekey_store::{Begun, Closed, StoreError};
use tokio::time::error::Elapsed;
use tracing::Span;
use tracing::field::Empty;

use crate::call::{Executed, Passed};
use crate::claiming::Answer;
use crate::flight::Over;
use crate::recorder::Written;

/// The target of all spans of oncekey's libraries, all of them at level `INFO`. A subscriber that wants none of them turns it off,
/// and then they cost next to nothing; one that wants nothing else asks for this alone.
pub const SPAN_TARGET: &str = "oncekey::spans";

macro_rules! step {
    ($name:literal of $id:expr, in $parent:expr $(, $($field:tt)*)?) => {
        tracing::info_span!(
            target: SPAN_TARGET,
            parent: $parent,
            $name,
            oncekey.operation_id = %$id,
            oncekey.outcome = Empty,
            otel.status_code = Empty
            $(, $($field)*)?
        )
    };
}

/// Asking the store for a claim, or for a transaction with it.
pub(crate) fn claim(parent: &Span, id: RecordId) -> Span {
    step!("claim" of id, in parent, oncekey.attempt = Empty)
}

/// Waiting for another call's execution, here or on another node.
pub(crate) fn wait(parent: &Span, id: RecordId) -> Span {
    step!("wait" of id, in parent)
}

/// An execution: the work gets its context.
pub(crate) fn execute(parent: &Span, id: RecordId, route: &str, attempt: u32) -> Span {
    step!("execute" of id, in parent, oncekey.route = route, oncekey.attempt = attempt)
}

/// A call that is let through without a claim (D1).
pub(crate) fn pass(parent: &Span, id: RecordId, route: &str) -> Span {
    step!("pass" of id, in parent, oncekey.route = route)
}

/// Recording an execution's end.
pub(crate) fn record(parent: &Span, id: RecordId, event: Event) -> Span {
    let event = match event {
        Event::Complete => "complete",
        Event::Fail => "fail",
        // An execution ends in no other way.
        _ => "write_off",
    };
    step!("record" of id, in parent, oncekey.event = event)
}

/// Ending a transaction, and recording with that what was executed in it.
pub(crate) fn end(parent: &Span, id: RecordId) -> Span {
    step!("record" of id, in parent, oncekey.event = Empty)
}

/// How a step ended. `failed` is for what somebody should look at.
pub(crate) fn ended(step: &Span, outcome: &'static str, failed: bool) {
    step.record("oncekey.outcome", outcome);
    if failed {
        step.record("otel.status_code", "ERROR");
    }
}

pub(crate) fn claimed(claim: &Span, answer: &Answer) {
    let (outcome, failed) = match answer {
        Answer::Granted { attempt } => {
            claim.record("oncekey.attempt", attempt);
            ("granted", false)
        }
        Answer::Held(_) => ("held", false),
        Answer::Unavailable => ("unavailable", true),
        Answer::Lost => ("lost", true),
        Answer::Unreadable => ("unreadable", true),
    };
    ended(claim, outcome, failed);
}

/// The first answer of the store to a call for a transaction, or the one that ends a wait for another's.
pub(crate) fn begun(asking: &Span, begun: Result<&Begun, &Over>) {
    let (outcome, failed) = match begun {
        Ok(Begun::Open { attempt, .. }) => {
            asking.record("oncekey.attempt", attempt);
            ("granted", false)
        }
        Ok(Begun::Held(_)) => ("held", false),
        Ok(Begun::Busy) => ("busy", false),
        Err(Over::Unreadable) => ("unreadable", true),
        Err(_) => ("unavailable", true),
    };
    ended(asking, outcome, failed);
}

/// How a wait for another node's execution ended; `None`: it is this node's turn, maybe.
pub(crate) fn outlasted(wait: &Span, over: Option<&Over>) {
    let outcome = match over {
        None => "again",
        Some(Over::Recorded { .. }) => "answered",
        Some(Over::InProgress) => "in_progress",
        Some(Over::Mismatch) => "mismatch",
        Some(_) => "unanswered",
    };
    ended(wait, outcome, false);
}

pub(crate) fn executed<A>(execution: &Span, executed: &Executed<A>) {
    match executed {
        Executed::Answered { verdict, .. } | Executed::Streaming { verdict, .. } => judged(execution, *verdict),
        Executed::NotExecuted(_) => ended(execution, "not_executed", true),
        Executed::Deferred(_) | Executed::Ambiguous(_) => ended(execution, "unknown", true),
    }
}

pub(crate) fn judged(execution: &Span, verdict: Verdict) {
    let (outcome, failed) = match verdict {
        Verdict::Completed => ("completed", false),
        Verdict::Declined => ("declined", false),
        Verdict::Failed => ("failed", false),
        Verdict::Unknown => ("unknown", true),
    };
    ended(execution, outcome, failed);
}

pub(crate) fn passed<A>(passing: &Span, passed: &Passed<A>) {
    let (outcome, failed) = match passed {
        Passed::Answered(_) => ("answered", false),
        Passed::NotExecuted(_) => ("not_executed", true),
        Passed::Ambiguous(_) => ("unknown", true),
    };
    ended(passing, outcome, failed);
}

pub(crate) fn recorded(recording: &Span, written: &Written) {
    let (outcome, failed) = match written {
        Written::Stands => ("written", false),
        Written::Fenced(_) => ("fenced", true),
        Written::GivenUp => ("given_up", true),
    };
    ended(recording, outcome, failed);
}

/// `commits` is whether a record was to be committed; `None`: what was left to be done in the transaction wasn't done.
pub(crate) fn closed(recording: &Span, closed: &Result<Result<Closed, StoreError>, Elapsed>, commits: Option<bool>) {
    recording.record("oncekey.event", commits.map(|commits| if commits { "complete" } else { "roll_back" }));
    let rolls_back = commits == Some(false);
    let (outcome, failed) = match closed {
        Ok(Ok(Closed::Recorded { .. })) => ("written", rolls_back),
        Ok(Ok(Closed::Met(_))) => ("held", false),
        Ok(Ok(Closed::Again)) => ("again", false),
        Ok(_) | Err(_) if rolls_back => ("rolled_back", false),
        Ok(Ok(Closed::RolledBack)) => ("rolled_back", true),
        Ok(Err(StoreError::MayHaveBeenApplied(_))) | Err(_) => ("unknown", true),
        Ok(Err(_)) => ("unavailable", true),
    };
    ended(recording, outcome, failed);
}
