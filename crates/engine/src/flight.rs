//! The calls of this process for one record, gathered: one leads (asks the store, executes), the others wait for it
//! without a store connection, a thread or a body (W1, W3).

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::Gauge;
use oncekey_core::{Fingerprint, RecordId, RecordedResponse};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::{Ended, fault};

/// Where a flight stands.
#[derive(Clone)]
pub(crate) enum Phase {
    /// The leader waits for a place among the executing operations; nothing is claimed.
    Queued,
    /// The leader is asking the store.
    Claiming,
    /// The leader's request runs: here, or on another node.
    Running,
    /// The leader's request was let through without a claim (D1).
    Passing,
    /// The flight has ended for everyone in it.
    Over(Over),
}

/// What the waiters of a flight get.
#[derive(Clone)]
pub(crate) enum Over {
    /// A recorded response; `waited` is whether it ran while they waited.
    Recorded {
        response: Arc<RecordedResponse>,
        waited: bool,
        repeatable: bool,
    },
    InProgress,
    NotExecuted,
    /// See [`Ended::Unknown`].
    Unknown {
        settles: bool,
    },
    Mismatch,
    Overloaded,
    QuotaExceeded,
    StoreUnavailable,
    Unreadable,
}

impl<A> From<Over> for Ended<A> {
    fn from(over: Over) -> Self {
        match over {
            Over::Recorded { response, waited, repeatable } => Self::Replayed { response, waited, repeatable },
            Over::InProgress => Self::InProgress,
            Over::NotExecuted => Self::NotExecuted,
            Over::Unknown { settles } => Self::Unknown { settles },
            Over::Mismatch => Self::Mismatch,
            Over::Overloaded => Self::Overloaded,
            Over::QuotaExceeded => Self::QuotaExceeded,
            Over::StoreUnavailable => Self::StoreUnavailable,
            Over::Unreadable => Self::Unreadable,
        }
    }
}

/// The calls for one record.
pub(crate) struct Flight<A> {
    /// What calls are compared with: the leader's fingerprint, or that of the record it met (F9).
    fingerprint: Mutex<Fingerprint>,
    phase: watch::Sender<Phase>,
    /// Calls that wait, the leader's own not counted.
    waiters: AtomicUsize,
    /// Waiters that may take the claim when nothing was executed (W4), in the order of their arrival.
    heirs: Mutex<Heirs<A>>,
}

struct Heirs<A> {
    by_arrival: BTreeMap<u64, oneshot::Sender<Ended<A>>>,
    arrivals: u64,
}

impl<A> Flight<A> {
    fn new(fingerprint: Fingerprint) -> Self {
        let (phase, _) = watch::channel(Phase::Queued);
        let heirs = Mutex::new(Heirs { by_arrival: BTreeMap::new(), arrivals: 0 });
        Self { fingerprint: Mutex::new(fingerprint), phase, waiters: AtomicUsize::new(0), heirs }
    }

    /// What calls are compared with at the moment.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint.lock().clone()
    }

    /// The leader met, or is about to make, a record with this fingerprint.
    pub(crate) fn compare_with(&self, fingerprint: &Fingerprint) {
        let mut present = self.fingerprint.lock();
        if *present != *fingerprint {
            present.clone_from(fingerprint);
        }
    }

    pub(crate) fn is_queued(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Queued)
    }

    pub(crate) fn is_passing(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Passing)
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    pub(crate) fn has_waiters(&self) -> bool {
        self.waiters.load(Ordering::Acquire) > 0
    }

    /// The longest-waiting caller that is still there; what is sent to it is its answer.
    pub(crate) fn next_heir(&self) -> Option<oneshot::Sender<Ended<A>>> {
        let mut heirs = self.heirs.lock();
        while let Some((_, heir)) = heirs.by_arrival.pop_first() {
            if !heir.is_closed() {
                return Some(heir);
            }
        }
        None
    }

    fn inherit(&self) -> (u64, oneshot::Receiver<Ended<A>>) {
        let (sender, receiver) = oneshot::channel();
        let mut heirs = self.heirs.lock();
        heirs.arrivals += 1;
        let arrival = heirs.arrivals;
        heirs.by_arrival.insert(arrival, sender);
        (arrival, receiver)
    }
}

/// All flights of a process.
pub(crate) struct Flights<A> {
    by_id: Mutex<HashMap<RecordId, Arc<Flight<A>>>>,
    waiters: AtomicUsize,
    max_waiters: AtomicUsize,
    /// Shows how many wait.
    waiting: Gauge,
}

/// A place in a flight.
pub(crate) enum Boarded<A> {
    /// There was none: the caller leads a new one.
    Leader(Leading<A>),
    /// There is one.
    Follower(Arc<Flight<A>>),
}

impl<A> Flights<A> {
    pub(crate) fn new(max_waiters: usize, waiting: Gauge) -> Arc<Self> {
        Arc::new(Self {
            by_id: Mutex::new(HashMap::new()),
            waiters: AtomicUsize::new(0),
            max_waiters: max_waiters.into(),
            waiting,
        })
    }

    /// Changes how many may wait; whoever waits goes on.
    pub(crate) fn bound_waiters(&self, max_waiters: usize) {
        self.max_waiters.store(max_waiters, Ordering::Release);
    }

    /// How many wait.
    pub(crate) fn waiters(&self) -> usize {
        self.waiters.load(Ordering::Acquire)
    }

    /// Joins the flight of a record, or begins it.
    pub(crate) fn board(self: &Arc<Self>, id: RecordId, fingerprint: &Fingerprint) -> Boarded<A> {
        let mut by_id = self.by_id.lock();
        if fault::broken("no_flights") {
            by_id.remove(&id);
        }
        match by_id.entry(id) {
            Entry::Occupied(flight) => Boarded::Follower(Arc::clone(flight.get())),
            Entry::Vacant(place) => {
                let flight = Arc::clone(place.insert(Arc::new(Flight::new(fingerprint.clone()))));
                Boarded::Leader(Leading { flights: Arc::clone(self), id, flight, settles: false, over: None })
            }
        }
    }

    /// Takes a waiter's place, if there is one left under both bounds (W3).
    pub(crate) fn wait(self: &Arc<Self>, flight: &Arc<Flight<A>>, max_per_key: usize) -> Option<Waiting<A>> {
        let count = |counter: &AtomicUsize, max: usize| {
            let taken = counter.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| (now < max).then_some(now + 1));
            taken.is_ok()
        };
        if !count(&self.waiters, self.max_waiters.load(Ordering::Acquire)) {
            return None;
        }
        if !count(&flight.waiters, max_per_key) {
            self.waiters.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let (arrival, inheritance) = flight.inherit();
        self.waiting.increment(1.0);
        Some(Waiting { flights: Arc::clone(self), flight: Arc::clone(flight), arrival, inheritance })
    }
}

/// The leader's hold on its flight. Dropping it ends the flight, so that no waiter is ever left behind.
pub(crate) struct Leading<A> {
    flights: Arc<Flights<A>>,
    pub(crate) id: RecordId,
    pub(crate) flight: Arc<Flight<A>>,
    /// Whether a retry may settle what is unknown if the leader is lost now.
    pub(crate) settles: bool,
    over: Option<Over>,
}

impl<A> Leading<A> {
    /// Ends the flight with what its waiters get.
    pub(crate) fn end(mut self, over: Over) {
        self.over = Some(over);
    }
}

impl<A> Drop for Leading<A> {
    fn drop(&mut self) {
        // Out of the map first: whoever comes now asks the store, which knows the outcome already.
        self.flights.by_id.lock().remove(&self.id);
        // Dropped without an outcome, the leader panicked or was cut off; its claim is being written off as unknown.
        let lost = Over::Unknown { settles: self.settles };
        self.flight.enter(Phase::Over(self.over.take().unwrap_or(lost)));
    }
}

/// A waiter's place in a flight, given back when dropped.
pub(crate) struct Waiting<A> {
    flights: Arc<Flights<A>>,
    flight: Arc<Flight<A>>,
    arrival: u64,
    /// Answered when this waiter takes the claim (W4).
    pub(crate) inheritance: oneshot::Receiver<Ended<A>>,
}

impl<A> Drop for Waiting<A> {
    fn drop(&mut self) {
        // A flight can outlast very many waiters; none leaves anything behind.
        self.flight.heirs.lock().by_arrival.remove(&self.arrival);
        self.flight.waiters.fetch_sub(1, Ordering::AcqRel);
        self.flights.waiters.fetch_sub(1, Ordering::AcqRel);
        self.flights.waiting.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use oncekey_core::Recipe;

    use super::*;

    fn flight(flights: &Arc<Flights<u32>>) -> (Leading<u32>, Arc<Flight<u32>>) {
        let id = RecordId::from_bytes([1; 16]);
        let Boarded::Leader(leading) = flights.board(id, &Fingerprint::from_parts([1; 32], Recipe::default())) else {
            panic!("there is no flight yet");
        };
        let flight = Arc::clone(&leading.flight);
        (leading, flight)
    }

    #[test]
    fn waiters_that_leave_leave_nothing_behind() {
        let flights = Flights::new(10, Gauge::noop());
        let (_leading, flight) = flight(&flights);
        for _ in 0..1000 {
            drop(flights.wait(&flight, 10).expect("there is room"));
        }
        assert_eq!(flight.heirs.lock().by_arrival.len(), 0);
        assert_eq!((flight.has_waiters(), flights.waiters.load(Ordering::Acquire)), (false, 0));
    }

    #[test]
    fn the_longest_waiting_inherits_first() {
        let flights = Flights::new(10, Gauge::noop());
        let (_leading, flight) = flight(&flights);
        let mut waiting: Vec<_> = (0..3).map(|_| flights.wait(&flight, 10).expect("there is room")).collect();
        drop(waiting.remove(0));
        let heir = flight.next_heir().expect("two wait");
        assert!(heir.send(Ended::InProgress).is_ok());
        assert!(waiting[0].inheritance.try_recv().is_ok());
        assert!(waiting[1].inheritance.try_recv().is_err());
    }

    #[test]
    fn a_flight_that_ended_is_gone_and_its_waiters_know() {
        let flights = Flights::new(10, Gauge::noop());
        let (leading, flight) = flight(&flights);
        drop(leading);
        assert!(flights.by_id.lock().is_empty());
        assert!(matches!(*flight.watch().borrow(), Phase::Over(Over::Unknown { settles: false })));
    }
}
