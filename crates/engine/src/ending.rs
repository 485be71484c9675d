//! What an execution's end means: for its record, for its caller, and for those who waited (E6–E8, W4).

use std::sync::Arc;

use futures_util::future::BoxFuture;
use oncekey_core::policy::Verdict;
use oncekey_core::{Event, RecordId, RecordedResponse};
use oncekey_store::Outcome;

use crate::flight::Over;
use crate::{Ended, Executed};

/// An execution's end: what is recorded, and who gets what.
pub(crate) struct End<A> {
    pub(crate) outcome: Outcome,
    /// For the leader's caller.
    pub(crate) first: Ended<A>,
    /// What is left to read of a streamed answer.
    pub(crate) rest: Option<BoxFuture<'static, ()>>,
    /// For the waiters.
    pub(crate) over: Over,
}

impl<A> End<A> {
    /// `settles` is whether the policy lets the next retry settle an unknown outcome (W4).
    pub(crate) fn of(executed: Executed<A>, id: RecordId, settles: bool) -> Self {
        let unknown = Over::Unknown { settles };
        match executed {
            Executed::Answered { first, response, verdict } => {
                Self::answered((first, None), response, verdict, unknown)
            }
            Executed::Streaming { first, response, verdict, rest } => {
                Self::answered((first, Some(rest)), response, verdict, unknown)
            }
            Executed::NotExecuted(proof) => {
                tracing::warn!(operation = %id, reason = %proof, "nothing was executed");
                let outcome = Outcome { event: Event::Fail, response: None };
                Self { outcome, first: Ended::NotExecuted, rest: None, over: Over::NotExecuted }
            }
            Executed::Deferred(_) => {
                let reason = "it left something to be done in a transaction, and there is none";
                Self::of(Executed::Ambiguous(reason.to_owned()), id, settles)
            }
            Executed::Ambiguous(reason) => {
                tracing::error!(operation = %id, reason, "the outcome is unknown");
                let outcome = Outcome { event: Event::WriteOff, response: None };
                Self { outcome, first: unknown.clone().into(), rest: None, over: unknown }
            }
        }
    }

    fn answered(
        (first, rest): (A, Option<BoxFuture<'static, ()>>),
        response: RecordedResponse,
        verdict: Verdict,
        unknown: Over,
    ) -> Self {
        let response = Arc::new(response);
        let repeatable = verdict == Verdict::Failed;
        let recorded = Over::Recorded { response: Arc::clone(&response), waited: true, repeatable };
        let (event, kept, over) = match verdict {
            Verdict::Completed | Verdict::Declined => (Event::Complete, Some(response), recorded),
            Verdict::Failed => (Event::Fail, Some(response), recorded),
            Verdict::Unknown => (Event::WriteOff, None, unknown),
        };
        let outcome = Outcome { event, response: kept };
        Self { outcome, first: Ended::Executed { first, verdict }, rest, over }
    }
}
