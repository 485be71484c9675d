//! The leader's way in transactional mode (G3): its claim, its handler's rows and its record are in one transaction, and nothing is
//! answered before that has ended.
//!
//! Nothing of it can be unknown as long as the store can tell how the transaction ended: what isn't committed has no effect. So
//! there is no lease to look after (E10), nothing to write off, and a panic, a handler that takes too long and the end of this
//! node all mean that nothing was executed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use oncekey_core::policy::Verdict;
use oncekey_core::{Event, RecordId, RecordedResponse};
use oncekey_store::{
    Begun, Claim, Closed, Ending, Last, Outcome, StoreError, Transaction, TransactionHandle, Transactions,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tracing::{Instrument as _, Span};

use super::{Attempted, Lead, Reply};
use crate::executing::{Execution, answer};
use crate::flight::{Over, Phase};
use crate::probing::is_takeover;
use crate::stopwatch::Running;
use crate::{Attempt, Ended, Executed, Stopwatch, fault, random, spans};

/// How often what met another transaction runs again (`Closed::Again`).
const MAX_RERUNS: u32 = 10;

/// Between two asks while another's transaction is open, and before a run is repeated; doubled up to the second value.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));

/// A pause before something is tried again that others try, too: at random between half of it and all.
fn pause(tries: u32) -> Duration {
    let most = PAUSE.1.min(PAUSE.0.saturating_mul(1 << tries.min(8)));
    let [random, ..] = random::bits();
    most / 2 + most / 2 * u32::from(random) / u32::from(u8::MAX)
}

/// A wait for another's open transaction. Asking in between is part of it, whatever the answer.
pub(super) struct Busy {
    /// How often the store said so.
    asks: u32,
    span: Span,
    /// As long as the leader's first caller waits.
    waits: Option<Running>,
}

/// What a handler made of its transaction.
enum Made<A> {
    Answered {
        first: A,
        /// What is left to read of a streamed answer.
        rest: Option<BoxFuture<'static, ()>>,
        response: Arc<RecordedResponse>,
        /// Never [`Verdict::Unknown`].
        verdict: Verdict,
    },
    /// It proved that it did nothing (E6): whoever waits may try.
    Refused,
    /// It failed in another way, or was cut short. It would do so again, so nobody's turn is next.
    Lost,
}

/// The answer that is made at the end of a transaction, once it is.
type Slot<A> = Arc<Mutex<Option<Made<A>>>>;

impl<A: Send + 'static> Made<A> {
    fn of(executed: Executed<A>, id: RecordId) -> Self {
        let answered = |first, rest, response, verdict| {
            let verdict = if verdict == Verdict::Unknown { Verdict::Failed } else { verdict };
            Self::Answered { first, rest, response: Arc::new(response), verdict }
        };
        match executed {
            Executed::Answered { first, response, verdict } => answered(first, None, response, verdict),
            Executed::Streaming { first, response, verdict, rest } => answered(first, Some(rest), response, verdict),
            Executed::NotExecuted(proof) => {
                tracing::warn!(operation = %id, reason = %proof, "nothing was executed");
                Self::Refused
            }
            Executed::Ambiguous(reason) => {
                tracing::error!(operation = %id, reason, "the transaction is rolled back");
                Self::Lost
            }
            Executed::Deferred(_) => {
                tracing::error!(operation = %id, "what was left to be done left something to be done itself");
                Self::Lost
            }
        }
    }

    fn tell(&self, execution: &Span) {
        match self {
            Self::Answered { verdict, .. } => spans::judged(execution, *verdict),
            Self::Refused | Self::Lost => spans::ended(execution, "not_executed", true),
        }
    }

    fn ending(&self) -> Ending {
        let Self::Answered { response, verdict, .. } = self else { return Ending::RollBack };
        let outcome = Outcome { event: Event::Complete, response: Some(Arc::clone(response)) };
        match verdict {
            Verdict::Completed => Ending::Commit(outcome),
            Verdict::Declined if fault::broken("keep_declined_rows") => Ending::Commit(outcome),
            Verdict::Declined => Ending::CommitRecord(outcome),
            Verdict::Failed | Verdict::Unknown if fault::broken("commit_errors") => Ending::Commit(outcome),
            Verdict::Failed | Verdict::Unknown => Ending::RollBack,
        }
    }

    /// Whether a record is to be committed.
    fn commits(&self) -> bool {
        !matches!(self.ending(), Ending::RollBack)
    }

    /// Whether it says itself that the operation didn't come to pass.
    fn is_error(&self) -> bool {
        !matches!(self, Self::Answered { verdict: Verdict::Completed, .. })
    }
}

/// Ends what nobody's turn is next of.
fn over<A>(over: Over) -> Execution<A> {
    Execution::Over { ended: Some(over.clone().into()), over }
}

impl<A: Send + 'static> Lead<A> {
    /// Makes the claim in a transaction, executes in it, and ends it.
    pub(super) async fn transact(
        &mut self,
        transactions: &dyn Transactions,
        claim: Claim,
        reply: &mut Option<Reply<A>>,
    ) -> Attempted<A> {
        let (asked, replaces) = (self.node.clock.elapsed(), claim.replaces);
        let (number, transaction) = match self.begin(transactions, claim).await {
            Ok(Begun::Open { attempt, transaction }) => (attempt, transaction),
            Ok(Begun::Held(found)) => return Attempted::Held { found, asked },
            Ok(Begun::Busy) => return Attempted::Busy,
            Err(over) => return Attempted::Refused(over),
        };
        let afresh = replaces.is_none_or(|seen| seen.expired);
        self.granted(number, replaces.as_ref().is_some_and(is_takeover));
        self.leading.settles = true; // whatever becomes of it, its retry finds out
        fault::point("after_claim").await;
        if afresh {
            self.leading.flight.compare_with(&self.call().fingerprint);
        }
        self.leading.flight.enter(Phase::Running);
        let attempted = self.execute_in(transaction, number, reply).await;
        match attempted {
            Attempted::Executed(Execution::Handed(_)) => Attempted::Executed(Execution::Handed(replaces)),
            Attempted::Executed(Execution::Over { over: Over::Recorded { repeatable: false, .. }, .. }) if afresh => {
                self.claimed_afresh();
                attempted
            }
            attempted => attempted,
        }
    }

    /// Asks for the transaction: of a leader that waits for another's, that is part of the wait, which any other answer ends.
    async fn begin(&mut self, transactions: &dyn Transactions, claim: Claim) -> Result<Begun, Over> {
        let id = self.leading.id;
        let asking = timeout(self.node.settings.store_timeout, transactions.begin(claim));
        let span = self.busy.as_ref().map_or_else(|| spans::claim(&self.span, id), |busy| busy.span.clone());
        let begun = match asking.instrument(span.clone()).await {
            Ok(Ok(begun)) => Ok(begun),
            Ok(Err(StoreError::Corrupt(error))) => {
                tracing::error!(operation = %id, %error, "a record can't be read");
                Err(Over::Unreadable)
            }
            Ok(Err(error)) => {
                tracing::warn!(operation = %id, %error, "a transaction could not begin");
                Err(Over::StoreUnavailable)
            }
            Err(_) => {
                tracing::warn!(operation = %id, "a transaction took longer than store_timeout to begin");
                Err(Over::StoreUnavailable)
            }
        };
        if self.busy.is_none() || !matches!(begun, Ok(Begun::Busy)) {
            spans::begun(&span, begun.as_ref());
            self.busy = None;
        }
        begun
    }

    async fn execute_in(
        &mut self,
        transaction: Box<dyn Transaction>,
        number: u32,
        reply: &mut Option<Reply<A>>,
    ) -> Attempted<A> {
        let id = self.leading.id;
        let handle = Some(TransactionHandle(transaction.handle()));
        let attempt = Attempt { id, number, policy: Arc::clone(&self.policy), transaction: handle, claim: None };
        let slot = Slot::default();
        let span = spans::execute(&self.span, id, &self.policy.route, number);
        let ending = match self.work(attempt).instrument(span.clone()).await {
            Executed::Deferred(answering) => {
                let slot = Arc::clone(&slot);
                // The execution goes on in it.
                let last: Last = Box::new(move |connection| {
                    let made = Made::of(span.in_scope(|| answering(connection)), id);
                    made.tell(&span);
                    let ending = made.ending();
                    *slot.lock() = Some(made);
                    ending
                });
                Ending::Last(last)
            }
            executed => {
                let made = Made::of(executed, id);
                made.tell(&span);
                drop(span);
                let ending = made.ending();
                *slot.lock() = Some(made);
                ending
            }
        };
        if fault::broken("answer_before_record")
            && let Some(Made::Answered { first, verdict, .. }) = slot.lock().take()
        {
            answer(reply, Some(Ended::Executed { first, verdict }));
        }
        let span = spans::end(&self.span, id);
        fault::point("before_record").await;
        let asked = self.node.clock.elapsed();
        let settings = &self.node.settings;
        let rolls_back = matches!(ending, Ending::RollBack);
        let patience = if rolls_back { settings.store_timeout } else { settings.record_retry };
        let closed = timeout(patience, transaction.end(ending)).instrument(span.clone()).await;
        let made = slot.lock().take();
        let commits = made.as_ref().map(Made::commits);
        spans::closed(&span, &closed, commits);
        drop(span);
        let commits = commits.unwrap_or(true);
        fault::point("before_reply").await;
        match closed {
            Ok(Ok(Closed::Met(found))) => Attempted::Held { found, asked },
            Ok(Ok(Closed::Again)) => self.again(made),
            Ok(Ok(Closed::Recorded { .. })) if commits => Attempted::Executed(self.recorded(made)),
            Ok(Ok(Closed::Recorded { .. })) => {
                tracing::error!(operation = %id, "what was to be rolled back was committed");
                Attempted::Executed(over(Over::Unknown { settles: true }))
            }
            Ok(Err(StoreError::MayHaveBeenApplied(error))) if rolls_back => {
                tracing::error!(operation = %id, %error, "nobody can tell what a transaction left that was to be rolled back");
                Attempted::Executed(over(Over::Unknown { settles: true }))
            }
            // It isn't committed, and that is all that a rollback has to achieve.
            Ok(_) | Err(_) if !commits => Attempted::Executed(self.rolled_back(made)),
            Ok(Ok(Closed::RolledBack)) => {
                tracing::error!(operation = %id, "a transaction that was to be committed is rolled back");
                Attempted::Executed(over(Over::NotExecuted))
            }
            Ok(Err(StoreError::MayHaveBeenApplied(_))) if fault::broken("unsettled_commits") => {
                Attempted::Executed(self.recorded(made))
            }
            Ok(Err(StoreError::MayHaveBeenApplied(error))) => {
                tracing::error!(operation = %id, %error, "nobody can tell yet whether a transaction was committed");
                Attempted::Executed(over(Over::Unknown { settles: true }))
            }
            Ok(Err(error)) => {
                tracing::warn!(operation = %id, %error, "a transaction could not be committed");
                Attempted::Executed(over(Over::StoreUnavailable))
            }
            Err(_) => {
                tracing::error!(operation = %id, "a transaction took longer than record_retry to end");
                Attempted::Executed(over(Over::Unknown { settles: true }))
            }
        }
    }

    /// The answer of a transaction that was committed.
    fn recorded(&self, made: Option<Made<A>>) -> Execution<A> {
        match made {
            Some(Made::Answered { first, rest, response, verdict }) => self.answered(first, rest, response, verdict),
            // Broken on purpose, or by the store: the record has the answer.
            Some(Made::Refused | Made::Lost) | None => over(Over::Unknown { settles: true }),
        }
    }

    /// The answer of a transaction that was rolled back because of it.
    fn rolled_back(&self, made: Option<Made<A>>) -> Execution<A> {
        match made {
            Some(Made::Answered { first, rest, response, .. }) => self.answered(first, rest, response, Verdict::Failed),
            Some(Made::Refused) => Execution::Handed(None),
            Some(Made::Lost) | None => over(Over::NotExecuted),
        }
    }

    /// Gives an answer to the leader's caller and to all who waited (W4).
    fn answered(
        &self,
        first: A,
        rest: Option<BoxFuture<'static, ()>>,
        response: Arc<RecordedResponse>,
        verdict: Verdict,
    ) -> Execution<A> {
        if let Some(rest) = rest {
            self.node.executions.spawn(self.node.cut.clone().run_until_cancelled_owned(rest));
        }
        let repeatable = verdict == Verdict::Failed;
        let over = Over::Recorded { response, waited: true, repeatable };
        Execution::Over { ended: Some(Ended::Executed { first, verdict }), over }
    }

    /// What met another transaction runs again, unless it did so too often: then its own error is given, which most likely is
    /// about that, and in place of any other answer that nothing was executed.
    fn again(&mut self, made: Option<Made<A>>) -> Attempted<A> {
        if self.reruns < MAX_RERUNS && !self.node.cut.is_cancelled() {
            self.reruns += 1;
            return Attempted::Again;
        }
        tracing::warn!(operation = %self.leading.id, "a transaction met others too often; nothing was executed");
        match made {
            Some(made @ Made::Answered { .. }) if made.is_error() => Attempted::Executed(self.rolled_back(Some(made))),
            _ => Attempted::Executed(over(Over::StoreUnavailable)),
        }
    }

    /// Lets what was met get on, before this leader's transaction is begun again.
    pub(super) async fn back_off(&self) {
        self.node.cut.run_until_cancelled(sleep(pause(self.reruns))).await;
    }

    /// Waits a moment for another's open transaction, with nothing held. False once nobody waits for it any more.
    pub(super) async fn wait_busy(&mut self, reply: &mut Option<Reply<A>>) -> bool {
        let busy = self.busy.get_or_insert_with(|| Busy {
            asks: 0,
            span: spans::wait(&self.span, self.leading.id),
            waits: self.waited.as_ref().map(Stopwatch::start),
        });
        let asks = busy.asks;
        busy.asks += 1;
        let until = self.arrived + self.policy.timing.wait;
        let left = until.saturating_duration_since(Instant::now());
        let pause = if reply.is_some() { pause(asks).min(left) } else { pause(asks) };
        self.node.cut.run_until_cancelled(sleep(pause)).await;
        // The leader's own caller is a duplicate here, and waits no longer than any other.
        if reply.as_ref().is_some_and(|reply| reply.is_closed() || Instant::now() >= until) {
            busy.waits = None;
            answer(reply, Some(Ended::InProgress));
        }
        if reply.is_none() && !self.node.cut.is_cancelled() {
            *reply = self.heir();
        }
        let goes_on = reply.is_some() && !self.node.cut.is_cancelled();
        if !goes_on && let Some(busy) = self.busy.take() {
            spans::ended(&busy.span, "in_progress", false);
        }
        goes_on
    }
}
