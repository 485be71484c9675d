//! How many connections there may be, and which one goes when a new one comes.

use std::sync::Arc;

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The places for connections at one listener. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// Told when a place is wanted and none is free; whoever has waited longest hears it.
    wanted: Arc<Notify>,
}

/// One connection's place, free again when dropped.
pub(super) type Place = OwnedSemaphorePermit;

impl Places {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS))), wanted: Arc::default() }
    }

    /// A place for a connection that was accepted. With none free, the connection that is idle for longest is asked to make
    /// room; while none is idle, newcomers wait.
    pub(super) async fn take(&self) -> Place {
        if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
            return place;
        }
        self.wanted.notify_one();
        Arc::clone(&self.free).acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Resolves when a place is wanted. To be polled only while idle.
    pub(super) fn wanted(&self) -> Notified<'_> {
        self.wanted.notified()
    }
}
