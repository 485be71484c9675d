//! Whether a connection is at work, as its parts tell the one who ends idle connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use futures_util::task::AtomicWaker;

/// One connection's signs of life, shared by its socket and its exchanges.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// Exchanges that have begun, ever.
    begun: AtomicU64,
    running: AtomicUsize,
    /// Something was read that belongs to no exchange.
    heard: AtomicBool,
    /// The client doesn't take what is written.
    blocked: AtomicBool,
    watcher: AtomicWaker,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beat {
    Busy,
    /// Nothing is asked or answered, since before the exchange of this number.
    Idle(u64),
}

impl Pulse {
    /// An exchange begins; it lasts until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Exchange {
        self.running.fetch_add(1, Ordering::AcqRel);
        self.begun.fetch_add(1, Ordering::AcqRel);
        self.heard.store(false, Ordering::Release);
        Exchange(Arc::clone(self))
    }

    /// What the connection does now. A change from busy to idle that comes later wakes `watcher`.
    pub(super) fn beat(&self, watcher: &Waker) -> Beat {
        self.watcher.register(watcher);
        let busy = self.running.load(Ordering::Acquire) > 0 || self.blocked.load(Ordering::Acquire);
        if busy { Beat::Busy } else { Beat::Idle(self.begun.load(Ordering::Acquire)) }
    }

    pub(super) fn hear(&self) {
        self.heard.store(true, Ordering::Release);
    }

    pub(super) fn has_heard(&self) -> bool {
        self.heard.load(Ordering::Acquire)
    }

    pub(super) fn block(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::Release);
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Exchange(Arc<Pulse>);

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.heard.store(false, Ordering::Release);
            self.0.watcher.wake();
        }
    }
}
