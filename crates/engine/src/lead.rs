//! The leader's way through a record: ask for the claim, judge what is in its way, execute, answer. The execution itself is in
//! `executing`, asking the upstream about an unknown outcome in `probing`, all of transactional mode in `transacting`.

mod elsewhere;
mod passing;
mod room;
mod transacting;

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::policy::{OnUnknown, Policy, Remedy};
use oncekey_core::{RecordedResponse, Standing, Token, standing};
use oncekey_store::{Claim, Found, Replaces};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{Instrument as _, Span};

use room::Room;
use transacting::Busy;

use crate::attempt::Confirmed;
use crate::claiming::{Answer, OpenClaim, ask};
use crate::engine::same_operation;
use crate::executing::{Execution, answer};
use crate::flight::{Leading, Over, Phase};
use crate::node::Node;
use crate::places::Place;
use crate::probing::{Asked, is_takeover};
use crate::replay_cache::Life;
use crate::{Call, Ended, Stopwatch, fault, random, spans};

/// Claims that one leader may make before it tells its caller to come back: each lost one means that another node got
/// further with the same record.
const MAX_CLAIMS: u32 = 100;

pub(crate) type Reply<A> = oneshot::Sender<Ended<A>>;

pub(crate) struct Lead<A> {
    pub(crate) node: Arc<Node<A>>,
    pub(crate) leading: Leading<A>,
    pub(crate) policy: Arc<Policy>,
    /// Let go of, and its body with it, once nothing can be executed any more: recording can take long (D3).
    pub(crate) call: Option<Call<A>>,
    /// When the caller came that is to be answered: the first one, or the one that inherited (W4).
    arrived: Instant,
    /// The span of the call. What is done for it are its children, but it isn't entered: it ends with its answer.
    pub(crate) span: Span,
    /// The first caller's; the waits of those behind it are theirs.
    waited: Option<Arc<Stopwatch>>,
    /// While another's open transaction is in the way.
    busy: Option<Busy>,
    /// How often its transaction met another and was begun again.
    reruns: u32,
}

/// What came of a leader's try to claim and to execute.
enum Attempted<A> {
    Executed(Execution<A>),
    /// A record is in the way. `asked` is this node's elapsed time from before it was read.
    Held {
        found: Box<Found>,
        asked: Duration,
    },
    /// Another's open transaction is in the way (G3).
    Busy,
    /// The transaction met another and was rolled back (G3).
    Again,
    /// The store failed, and nothing is known of the record from it.
    Unclaimed,
    /// Nothing was executed.
    Refused(Over),
}

/// What a record that is in the way means for the leader.
enum Judged {
    /// It answers the call.
    Over(Over),
    /// It is another request's (F8). Waiters that look like the leader under its own recipe may be the record's under an
    /// older one (F9).
    Mismatch { recipe_differs: bool },
    /// The claim may replace it.
    Replace(Replaces),
    /// The upstream is asked about it first (E7); the claim may replace it if that says so.
    Ask { seen: Replaces, may_execute: bool },
    /// Another node executes it.
    Elsewhere,
}

impl Judged {
    /// Whether the operation runs elsewhere, or may have taken effect: then it is no unguarded request's turn (D1).
    fn may_have_run(&self) -> bool {
        match self {
            Self::Elsewhere | Self::Ask { .. } => true,
            Self::Replace(seen) => is_takeover(seen),
            Self::Over(_) | Self::Mismatch { .. } => false,
        }
    }
}

impl<A: Send + 'static> Lead<A> {
    pub(crate) fn new(node: Arc<Node<A>>, leading: Leading<A>, call: Call<A>, arrived: Instant, span: Span) -> Self {
        Self {
            node,
            leading,
            policy: Arc::clone(&call.policy),
            waited: Some(Arc::clone(&call.waited)),
            call: Some(call),
            arrived,
            span,
            busy: None,
            reruns: 0,
        }
    }

    /// Leads the flight to its end. Runs as a task of its own; `reply` is the caller's.
    pub(crate) async fn run(mut self, reply: Reply<A>) {
        let mut reply = Some(reply);
        let mut replaces = None;
        let mut elsewhere = false; // see `Judged::may_have_run`
        let mut claims = 0;
        while claims < MAX_CLAIMS {
            claims += 1;
            let permit = match self.node.inflight.try_take() {
                Some(permit) => permit,
                // Only what executes needs a place: what the record answers is answered at once (F8, W3).
                None => match self.settled().await {
                    Some(Judged::Over(over)) => return self.end(reply, over),
                    Some(Judged::Mismatch { recipe_differs }) => return self.end_mismatched(reply, recipe_differs),
                    judged => {
                        elsewhere |= judged.is_some_and(|judged| judged.may_have_run());
                        match self.permit().await {
                            Some(permit) => permit,
                            None => return self.end(reply, Over::Overloaded),
                        }
                    }
                },
            };
            if self.leading.flight.is_queued() {
                self.leading.flight.enter(Phase::Claiming);
            }
            match self.room(replaces.as_ref()).await {
                Room::Free => {}
                Room::None => return self.end(reply, Over::QuotaExceeded),
                Room::Unavailable if !elsewhere => return self.end_unclaimed(reply).await,
                Room::Unavailable => return self.end(reply, Over::StoreUnavailable),
            }
            let claim = self.claim(replaces);
            fault::point("before_claim").await;
            let attempted = match self.call().transactions.clone() {
                Some(transactions) => self.transact(&*transactions, claim, &mut reply).await,
                None => self.claim_and_execute(claim, &mut reply).await,
            };
            match attempted {
                Attempted::Executed(execution) => {
                    drop(permit);
                    match execution {
                        Execution::Over { ended, over } => {
                            answer(&mut reply, ended);
                            return self.leading.end(over);
                        }
                        Execution::Handed(failed) => {
                            answer(&mut reply, Some(Ended::NotExecuted));
                            reply = self.heir();
                            if reply.is_none() {
                                return self.leading.end(Over::NotExecuted);
                            }
                            replaces = failed;
                        }
                    }
                }
                Attempted::Unclaimed if !elsewhere => return self.end_unclaimed(reply).await,
                Attempted::Unclaimed => return self.end(reply, Over::StoreUnavailable),
                Attempted::Refused(over) => return self.end(reply, over),
                Attempted::Again => {
                    drop(permit);
                    self.back_off().await;
                }
                Attempted::Busy => {
                    drop(permit);
                    claims -= 1; // nothing was claimed, and it may take as long as its duplicates wait
                    if !self.wait_busy(&mut reply).await {
                        return self.end(reply, Over::InProgress);
                    }
                }
                Attempted::Held { found, asked } => {
                    replaces = None;
                    let judged = self.judge(&found, asked, false);
                    elsewhere |= judged.may_have_run();
                    match judged {
                        Judged::Over(over) => return self.end(reply, over),
                        Judged::Mismatch { recipe_differs } => return self.end_mismatched(reply, recipe_differs),
                        Judged::Replace(seen) => replaces = Some(seen),
                        Judged::Ask { seen, may_execute } => {
                            // Whose record it is, is known by now (F8).
                            self.leading.flight.enter(Phase::Running);
                            match self.ask_upstream(may_execute).await {
                                Asked::Over(over) => return self.end(reply, over),
                                Asked::Absent => replaces = Some(seen),
                                Asked::Changed => {}
                            }
                        }
                        Judged::Elsewhere => {
                            drop(permit); // it runs elsewhere, not here
                            self.leading.flight.enter(Phase::Running);
                            if let Some(over) = self.outlast(&mut reply).await {
                                return self.end(reply, over);
                            }
                        }
                    }
                }
            }
        }
        self.end(reply, Over::InProgress);
    }

    fn end(self, mut reply: Option<Reply<A>>, over: Over) {
        if let Over::Recorded { .. } = over
            && reply.is_some()
        {
            self.node.replays.count(self.leading.id);
        }
        answer(&mut reply, Some(over.clone().into()));
        self.leading.end(over);
    }

    /// Ends a flight whose leader is another request than the record's.
    fn end_mismatched(self, mut reply: Option<Reply<A>>, recipe_differs: bool) {
        answer(&mut reply, Some(Ended::Mismatch));
        self.leading.end(if recipe_differs { Over::InProgress } else { Over::Mismatch });
    }

    /// The next waiter to be answered in place of a caller that is done.
    fn heir(&mut self) -> Option<Reply<A>> {
        self.arrived = Instant::now();
        self.waited = None;
        self.leading.flight.next_heir()
    }

    /// Makes the claim durable, executes, and records the outcome.
    async fn claim_and_execute(&mut self, claim: Claim, reply: &mut Option<Reply<A>>) -> Attempted<A> {
        // A record that is carried on keeps its own fingerprint (F9).
        let afresh = claim.replaces.is_none_or(|seen| seen.expired);
        let takes_over = claim.replaces.as_ref().is_some_and(is_takeover);
        let (token, alive_since, asked) = (claim.token, self.node.alive_since(), self.node.clock.elapsed());
        match self.ask(claim).await {
            Answer::Unavailable => Attempted::Unclaimed,
            Answer::Lost => Attempted::Refused(Over::StoreUnavailable),
            Answer::Unreadable => Attempted::Refused(Over::Unreadable),
            Answer::Held(found) => Attempted::Held { found, asked },
            Answer::Granted { attempt } => {
                let node = Arc::clone(&self.node);
                let open = OpenClaim::executing(&node.recorder, self.leading.id, token);
                self.granted(attempt, takes_over);
                fault::point("after_claim").await;
                if afresh {
                    self.claimed_afresh();
                    self.leading.flight.compare_with(&self.call().fingerprint);
                }
                self.leading.flight.enter(Phase::Running);
                let claim = self.confirmed(token, alive_since);
                Attempted::Executed(self.execute(attempt, claim, open, reply).await)
            }
        }
    }

    /// Takes note of a granted claim.
    fn granted(&mut self, attempt: u32, takes_over: bool) {
        self.leading.settles = self.policy.settles(attempt);
        if takes_over {
            self.node.takeovers.increment(1);
            tracing::warn!(operation = %self.leading.id, attempt, "an unknown outcome is taken over and executed again");
        }
    }

    pub(crate) fn call(&self) -> &Call<A> {
        self.call.as_ref().expect("the call is let go of only after its last execution")
    }

    /// A place among the executing operations; `None` when none came free in time (W3) or the node shuts down (D4).
    async fn permit(&self) -> Option<Place> {
        let until = self.arrived + self.policy.timing.answer_timeout;
        timeout_at(until, self.node.inflight.take()).await.ok().flatten()
    }

    /// The record as it stands, read without claiming; `None` if there is none or the store doesn't answer.
    async fn settled(&self) -> Option<Judged> {
        let asked = self.node.clock.elapsed();
        let read = timeout(self.node.settings.store_timeout, self.node.store.read(self.leading.id)).await;
        let found = read.ok().and_then(Result::ok).flatten()?;
        Some(self.judge(&found, asked, false))
    }

    fn claim(&self, replaces: Option<Replaces>) -> Claim {
        let call = self.call();
        Claim {
            identity: call.identity.clone(),
            token: Token::from_bytes(random::bits()),
            owner: self.node.owner,
            fingerprint: call.fingerprint.clone(),
            origin: call.origin.clone(),
            lifetimes: self.policy.timing.lifetimes(self.node.settings.lease),
            replaces,
        }
    }

    async fn ask(&self, claim: Claim) -> Answer {
        let span = spans::claim(&self.span, self.leading.id);
        let asking = ask(&self.node.store, &self.node.recorder, claim, self.node.settings.store_timeout);
        let answer = asking.instrument(span.clone()).await;
        spans::claimed(&span, &answer);
        answer
    }

    fn confirmed(&self, token: Token, at: Duration) -> Arc<Confirmed> {
        Arc::new(Confirmed {
            store: Arc::clone(&self.node.store),
            clock: Arc::clone(&self.node.clock),
            token,
            owner: self.node.owner,
            at,
            lease: self.node.settings.lease,
        })
    }

    /// Judges a record that is in the way. `asked` is this node's elapsed time from before it was read; `waited` is
    /// whether it ran while this flight waited for it.
    fn judge(&self, found: &Found, asked: Duration, waited: bool) -> Judged {
        let record = &found.record;
        let trusted = self.node.trusts_expiry_at(found.now, asked);
        let stands = standing(record, found.now, found.owner_alive, trusted);
        let seen = |expired| Replaces { token: record.token, state: record.state, expired };
        if stands == Standing::Absent {
            return Judged::Replace(seen(true));
        }
        if !same_operation(self.call(), &record.fingerprint) {
            // Nobody may board this flight as the record's own request: it ends with a mismatch.
            return Judged::Mismatch {
                recipe_differs: self.call().fingerprint.recipe() != record.fingerprint.recipe(),
            };
        }
        self.leading.flight.compare_with(&record.fingerprint);
        match (stands, &found.response) {
            (Standing::Completed, Some(response)) => {
                self.remember(found, response, asked);
                Judged::Over(Over::Recorded { response: Arc::clone(response), waited, repeatable: false })
            }
            (Standing::Completed, None) => Judged::Over(Over::Unreadable),
            // Whoever waited for it gets its answer (W4); whoever comes later runs it again (E8).
            (Standing::Failed, Some(response)) if waited => {
                Judged::Over(Over::Recorded { response: Arc::clone(response), waited, repeatable: true })
            }
            (Standing::Failed, _) => Judged::Replace(seen(false)),
            (Standing::Unknown, _) if fault::broken("execute_lapsed") => Judged::Replace(seen(false)),
            (Standing::Unknown, _) if waited => {
                Judged::Over(Over::Unknown { settles: self.policy.settles(record.attempts) })
            }
            (Standing::Unknown, _) => self.judge_unknown(found, trusted),
            (Standing::Processing | Standing::Absent, _) => Judged::Elsewhere,
        }
    }

    /// What may be done about an unknown outcome, by the policy (E7).
    fn judge_unknown(&self, found: &Found, trusted: bool) -> Judged {
        let record = &found.record;
        let seen = Replaces { token: record.token, state: record.state, expired: false };
        match self.policy.remedy(record, found.now, trusted) {
            Remedy::Execute => Judged::Replace(seen),
            Remedy::Ask { may_execute } => Judged::Ask { seen, may_execute },
            Remedy::Wait => Judged::Over(Over::Unknown { settles: true }),
            Remedy::Hold if self.retries() && fault::broken("endless_attempts") => Judged::Replace(seen),
            Remedy::Hold => Judged::Over(Over::Unknown { settles: false }),
        }
    }

    fn retries(&self) -> bool {
        self.policy.on_unknown == OnUnknown::Retry
    }

    fn remember(&self, found: &Found, response: &Arc<RecordedResponse>, asked: Duration) {
        let Some(expires) = found.record.times.expires else { return };
        let life = Life { left: expires.since(found.now), elapsed: asked };
        self.node.cache.put(self.leading.id, found.record.fingerprint.clone(), Arc::clone(response), life);
    }
}
