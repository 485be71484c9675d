//! The engine's face: calls come in, and either lead or follow.

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::{Fingerprint, RecordId, Timestamp};
use oncekey_store::{Clock, Store, StoreError};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{Instrument as _, Span};

use crate::flight::{Boarded, Flight, Leading, Phase};
use crate::lead::Lead;
use crate::node::Node;
use crate::{Call, Ended, Settings, fault, spans};

/// Executes calls once. Clones share everything. `A` is what the caller gets who asked first.
pub struct Engine<A> {
    node: Arc<Node<A>>,
}

impl<A> Clone for Engine<A> {
    fn clone(&self) -> Self {
        Self { node: Arc::clone(&self.node) }
    }
}

/// What following led to.
enum Followed<A> {
    Ended(Ended<A>),
    /// The flight was another request's and is over.
    Again(Box<Call<A>>),
}

impl<A: Send + 'static> Engine<A> {
    /// Makes this process known to the store and starts its heartbeat, sweeping and counting. Must be called within a
    /// tokio runtime. An error means that nothing runs.
    pub async fn start(store: Arc<dyn Store>, clock: Arc<dyn Clock>, settings: Settings) -> Result<Self, StoreError> {
        let node = Node::start(store, clock, settings).await?;
        Ok(Self { node })
    }

    /// Executes the call, or answers it from the record of its execution. Dropping the future changes nothing about the
    /// execution (E3). Bounded by `wait` for a duplicate and by `answer_timeout` for the call that leads; one that is let
    /// through without a claim is answered when it ends.
    pub async fn run(&self, call: Call<A>) -> Ended<A> {
        let arrived = Instant::now();
        let until = arrived + call.policy.timing.wait;
        let id = call.identity.id();
        let mut call = call;
        loop {
            if let Some(ended) = self.cached(id, &call) {
                return ended;
            }
            match self.node.flights.board(id, &call.fingerprint) {
                Boarded::Leader(leading) => return self.lead(leading, call, arrived).await,
                Boarded::Follower(flight) => match self.wait_behind(&flight, call, until).await {
                    Followed::Ended(ended) => return ended,
                    Followed::Again(back) => call = *back,
                },
            }
        }
    }

    /// Takes over from other settings what may change while operations run: `max_inflight`, `max_waiters_all`, `cache_for`,
    /// `sweep_every` and `sweep_batch`. Whoever executes or waits goes on; a lowered bound is kept to as they end.
    pub fn adjust(&self, settings: &Settings) {
        self.node.adjust(settings);
    }

    /// The store, as this node uses it: what others ask of it through this is timed, counted and swept in its metrics too.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.node.store)
    }

    /// How many calls wait for the execution of another at the moment (W3).
    pub fn waiters(&self) -> usize {
        self.node.flights.waiters()
    }

    /// Forgets what is cached of a record: an operator resolved or purged it (R8).
    pub fn forget(&self, id: RecordId) {
        self.node.cache.forget(id);
    }

    /// Whether the store's clock is in step with this node's elapsed time; while it isn't, nothing expires (E9).
    pub fn trusts_clock(&self) -> bool {
        self.node.trusts_clock()
    }

    /// Whether a reading of the store's clock, just made, is in step with this node's elapsed time: what is swept by another one
    /// may not have expired (E9).
    pub fn believes(&self, now: Timestamp) -> bool {
        self.node.believes(now)
    }

    /// Waits up to `drain` for what runs, then writes the rest off as unknown, and ends this process's claim to live (D4).
    /// No call may come in any more. Returns how many executions were cut.
    pub async fn shutdown(&self, drain: Duration) -> usize {
        self.node.shutdown(drain).await
    }

    fn cached(&self, id: RecordId, call: &Call<A>) -> Option<Ended<A>> {
        let cached = self.node.cache.get(id, self.node.clock.elapsed())?;
        if !same_operation(call, &cached.fingerprint) {
            return Some(Ended::Mismatch);
        }
        self.node.replays.count(id);
        Some(Ended::Replayed { response: Arc::clone(&cached.response), waited: false, repeatable: false })
    }

    async fn lead(&self, leading: Leading<A>, call: Call<A>, arrived: Instant) -> Ended<A> {
        let until = arrived + call.policy.timing.answer_timeout;
        let flight = Arc::clone(&leading.flight);
        let settles = call.policy.settles(0) || call.transactions.is_some();
        let (reply, mut answer) = oneshot::channel();
        let lead = Lead::new(Arc::clone(&self.node), leading, call, arrived, Span::current()).run(reply);
        if fault::broken("tie_to_client") {
            lead.await;
        } else {
            self.node.executions.spawn(lead);
        }
        let ended = match timeout_at(until, &mut answer).await {
            Ok(ended) => ended,
            // No place among the executing operations came free: nothing is claimed (W3).
            Err(_) if flight.is_queued() => return Ended::Overloaded,
            // There will be no record to come back for: what isn't given now is lost. Bounded by `upstream_timeout`.
            Err(_) if flight.is_passing() => answer.await,
            Err(_) => return Ended::InProgress,
        };
        // Without an answer, the leader panicked; its claim is being written off.
        ended.unwrap_or(Ended::Unknown { settles })
    }

    async fn wait_behind(&self, flight: &Arc<Flight<A>>, call: Call<A>, until: Instant) -> Followed<A> {
        let span = spans::wait(&Span::current(), call.identity.id());
        let followed = self.follow(flight, call, until).instrument(span.clone()).await;
        let outcome = match &followed {
            Followed::Again(_) => "again",
            Followed::Ended(Ended::Replayed { .. }) => "answered",
            Followed::Ended(Ended::Executed { .. }) => "inherited",
            Followed::Ended(Ended::InProgress) => "in_progress",
            Followed::Ended(Ended::Mismatch) => "mismatch",
            Followed::Ended(_) => "unanswered",
        };
        spans::ended(&span, outcome, false);
        followed
    }

    async fn follow(&self, flight: &Arc<Flight<A>>, call: Call<A>, until: Instant) -> Followed<A> {
        let compared_with = flight.fingerprint();
        if !same_operation(&call, &compared_with) {
            return follow_another(flight, call, until).await;
        }
        let (id, waited) = (call.identity.id(), Arc::clone(&call.waited));
        let Some(mut waiting) = self.node.flights.wait(flight, call.policy.max_waiters) else {
            return Followed::Ended(Ended::InProgress);
        };
        drop(call); // a waiter holds no body (W3)
        let _waits = waited.start();
        let mut phase = flight.watch();
        let mut may_inherit = true;
        loop {
            if let Phase::Over(over) = phase.borrow_and_update().clone() {
                // Who inherited was answered before the flight was over.
                if let Ok(ended) = waiting.inheritance.try_recv() {
                    return Followed::Ended(ended);
                }
                // The record turned out to be compared under another recipe, and this call's body is gone: it can't say
                // any more whether the answer is its own. Whoever asks again can (F9).
                if flight.fingerprint().recipe() != compared_with.recipe() {
                    return Followed::Ended(Ended::InProgress);
                }
                let ended = Ended::from(over);
                if let Ended::Replayed { .. } = ended {
                    self.node.replays.count(id);
                }
                return Followed::Ended(ended);
            }
            tokio::select! {
                biased;
                inherited = &mut waiting.inheritance, if may_inherit => match inherited {
                    Ok(ended) => return Followed::Ended(ended),
                    Err(_) => may_inherit = false,
                },
                // An error means that the flight is gone; then it is over, and the check above sees it.
                _ = phase.changed() => {}
                () = sleep_until(until) => return Followed::Ended(Ended::InProgress),
            }
        }
    }
}

/// Waits, with its body, until it is known whose record it is: the leader's, or nobody's so far. A record that the leader
/// met may have been made by an older recipe, under which the two are the same operation after all (F9).
async fn follow_another<A>(flight: &Flight<A>, call: Call<A>, until: Instant) -> Followed<A> {
    let mut phase = flight.watch();
    let _waits = call.waited.start();
    loop {
        // Cloned, so that comparing holds nobody up.
        let now = phase.borrow_and_update().clone();
        match now {
            Phase::Queued | Phase::Claiming => {}
            Phase::Running | Phase::Passing if same_operation(&call, &flight.fingerprint()) => {}
            Phase::Running | Phase::Passing => return Followed::Ended(Ended::Mismatch),
            Phase::Over(_) => return Followed::Again(Box::new(call)),
        }
        match timeout_at(until, phase.changed()).await {
            Ok(_) => {}
            Err(_) => return Followed::Ended(Ended::InProgress),
        }
    }
}

/// Whether a call is the operation that `fingerprint` was made of, compared under the recipe of the latter (F9).
pub(crate) fn same_operation<A>(call: &Call<A>, fingerprint: &Fingerprint) -> bool {
    if call.fingerprint.recipe() == fingerprint.recipe() {
        call.fingerprint == *fingerprint
    } else {
        (call.refingerprint)(fingerprint.recipe()) == *fingerprint
    }
}
