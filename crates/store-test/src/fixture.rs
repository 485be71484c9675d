//! What a case is given: a fresh, empty store, the clock that it goes by, and a second handle on the same records.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use oncekey_core::{Identity, OwnerId, Timestamp};
use oncekey_store::{Claim, Clock, Found, ManualClock, Store};

use crate::{granted, samples};

/// Where every case's clock begins.
pub const START: Timestamp = Timestamp::from_micros(1_796_083_200_000_000);

/// The lease that [`Fixture::owner`] heartbeats with.
pub const LEASE: Duration = Duration::from_secs(30);

/// An empty store and what belongs to it.
pub struct Fixture {
    /// The store under test.
    pub store: Arc<dyn Store>,
    /// Another handle on the same records: another process, where the store can serve several.
    pub other: Arc<dyn Store>,
    /// The clock of both.
    pub clock: Arc<ManualClock>,
    guard: Option<Box<dyn Any + Send>>,
}

impl Fixture {
    /// A fixture of a store that serves one process: its second handle is the first.
    pub fn new(open: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Store>) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let store = open(clock.clone());
        Self { other: store.clone(), store, clock, guard: None }
    }

    /// A fixture of a store that serves several processes: `open` is called twice on the same place. `place` (a
    /// temporary directory, say) is kept until the fixture is dropped.
    pub fn shared<P: Any + Send>(place: P, open: impl Fn(&P, Arc<dyn Clock>) -> Arc<dyn Store>) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let (store, other) = (open(&place, clock.clone()), open(&place, clock.clone()));
        Self { store, other, clock, guard: Some(Box::new(place)) }
    }

    /// The same place and clock with another store in front: a broken one, in tests of the suite.
    #[must_use]
    pub fn wrapped(self, wrap: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        Self { store: wrap(self.store), other: wrap(self.other), clock: self.clock, guard: self.guard }
    }

    /// The clock's time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A new owner whose heartbeat is valid for [`LEASE`].
    pub async fn owner(&self) -> OwnerId {
        let owner = samples::owner();
        self.store.heartbeat(owner, LEASE).await.expect("a heartbeat");
        owner
    }

    /// A granted claim of a new, living owner.
    pub async fn claimed(&self, scope: &str, key: &str) -> Claim {
        let claim = samples::claim(&samples::identity(scope, key), self.owner().await);
        assert_eq!(granted(&self.store.claim(claim.clone()).await), 1, "a first claim is the first attempt");
        claim
    }

    /// The record as the store reports it now.
    pub async fn read(&self, identity: &Identity) -> Option<Found> {
        self.store.read(identity.id()).await.expect("a reading")
    }

    /// The record, which must be there.
    pub async fn found(&self, identity: &Identity) -> Found {
        self.read(identity).await.expect("the record is there")
    }
}
