//! The leader's own execution: the work in bounded time, its end recorded before it is answered (E2, E3, D3), and what is
//! answered when the record has become someone else's meanwhile (E4).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use oncekey_core::{State, Token};
use oncekey_store::{Found, Replaces};
use tokio::time::timeout;
use tracing::Instrument as _;

use crate::attempt::Confirmed;
use crate::claiming::OpenClaim;
use crate::ending::End;
use crate::flight::Over;
use crate::lead::{Lead, Reply};
use crate::recorder::Written;
use crate::{Attempt, Ended, Executed, NotExecuted, fault, spans};

/// How the leader's own execution ended.
pub(crate) enum Execution<A> {
    /// The flight is over; the leader's caller gets `ended`, unless it was answered before.
    Over { ended: Option<Ended<A>>, over: Over },
    /// Nothing was executed, and the record says so, or there is none: a waiter may take the claim (W4).
    Handed(Option<Replaces>),
}

impl<A: Send + 'static> Lead<A> {
    /// Executes under a granted claim and records how it went.
    pub(crate) async fn execute(
        &mut self,
        number: u32,
        claim: Arc<Confirmed>,
        open: OpenClaim<'_>,
        reply: &mut Option<Reply<A>>,
    ) -> Execution<A> {
        let token = claim.token;
        let (id, policy, claim) = (self.leading.id, Arc::clone(&self.policy), Some(claim));
        let span = spans::execute(&self.span, id, &policy.route, number);
        let attempt = Attempt { id, number, policy, transaction: None, claim };
        let executed = self.work(attempt).instrument(span.clone()).await;
        spans::executed(&span, &executed);
        drop(span);
        let end = End::of(executed, id, self.leading.settles);
        if !matches!(end.over, Over::NotExecuted) {
            self.call = None;
        }
        let execution = self.record(token, end, reply).await;
        open.settled();
        fault::point("before_reply").await;
        execution
    }

    /// The execution itself, bounded in time; a panic in it leaves its outcome as open as a cut connection does.
    pub(crate) async fn work(&self, attempt: Attempt) -> Executed<A> {
        if self.node.cut.is_cancelled() {
            return Executed::NotExecuted(NotExecuted::because("the node shuts down"));
        }
        let limit = self.policy.timing.upstream_timeout;
        let work = Arc::clone(&self.call().work);
        // The call of the closure is inside, since it can panic as well.
        let work = AssertUnwindSafe(async move { work(attempt).await }).catch_unwind();
        tokio::select! {
            biased; // an outcome that is there counts
            executed = timeout(limit, work) => match executed {
                Ok(Ok(executed)) => executed,
                Ok(Err(_)) => Executed::Ambiguous("its handler panicked".to_owned()),
                Err(_) => Executed::Ambiguous("it took longer than upstream_timeout".to_owned()),
            },
            () = self.node.cut.cancelled() => Executed::Ambiguous("the node shut down while it ran".to_owned()),
        }
    }

    /// Records an end before it is answered (E2), or answers it after `record_timeout` all the same and goes on (D3).
    async fn record(&self, token: Token, end: End<A>, reply: &mut Option<Reply<A>>) -> Execution<A> {
        let End { mut outcome, first, rest, mut over } = end;
        let id = self.leading.id;
        let span = spans::record(&self.span, id, outcome.event);
        let mut first = Some(first);
        if fault::broken("answer_before_record") {
            answer(reply, first.take());
        }
        fault::point("before_record").await;
        let patience = self.policy.timing.record_timeout;
        let in_time = timeout(patience, self.node.recorder.write(id, token, outcome.clone()));
        let in_time = in_time.instrument(span.clone()).await;
        if let Some(rest) = rest {
            self.node.executions.spawn(self.node.cut.clone().run_until_cancelled_owned(rest));
        }
        let written = if let Ok(written) = in_time {
            written
        } else {
            tracing::warn!(operation = %id, "the outcome isn't recorded yet; its first answer is given all the same");
            answer(reply, first.take());
            let outlived = self.node.recorder.outlive(&mut outcome);
            if outlived.stripped {
                over = Over::InProgress; // frees the body, and the record says what is replayed
            }
            self.node.recorder.write(id, token, outcome.clone()).instrument(span.clone()).await
        };
        spans::recorded(&span, &written);
        let over = match written {
            Written::Stands if matches!(over, Over::NotExecuted) => {
                return Execution::Handed(Some(Replaces { token, state: State::Failed, expired: false }));
            }
            Written::Stands => over,
            Written::Fenced(found) => match found.and_then(|found| self.governing_end(*found, token)) {
                // Someone else governs the record: everyone gets the same answer from now on.
                Some(over) => return Execution::Over { ended: first.map(|_| over.clone().into()), over },
                // This execution was answered, but its answer isn't the record's: nobody else may take it for it.
                None if matches!(over, Over::Recorded { .. }) => Over::InProgress,
                None => over,
            },
            Written::GivenUp => Over::Unknown { settles: self.leading.settles },
        };
        Execution::Over { ended: first, over }
    }

    /// What the callers of an execution get whose record turns out to be someone else's: the outcome that an operator, a probe
    /// or the execution that took over gave it, or to come back for that (E4). `None` where the record is gone, or another
    /// request's, or still under this execution's token: then there is nothing better to say than what the execution said.
    fn governing_end(&self, found: Found, token: Token) -> Option<Over> {
        let Found { record, response, .. } = found;
        if record.token == token || record.fingerprint != self.leading.flight.fingerprint() {
            return None;
        }
        let recorded = |repeatable| move |response| Over::Recorded { response, waited: true, repeatable };
        match record.state {
            State::Completed => response.map(recorded(false)),
            State::Processing => Some(Over::InProgress),
            State::Failed => Some(response.map_or(Over::InProgress, recorded(true))),
            State::Unknown => Some(Over::Unknown { settles: self.policy.settles(record.attempts) }),
        }
    }
}

/// Gives a caller its answer, once. Whether it is still there doesn't matter: the record has it.
pub(crate) fn answer<A>(reply: &mut Option<Reply<A>>, ended: Option<Ended<A>>) {
    if let Some(ended) = ended
        && let Some(reply) = reply.take()
    {
        let _ = reply.send(ended);
    }
}
