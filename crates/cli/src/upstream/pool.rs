//! Connections to the upstream that wait for their next request (E12).
//!
//! Owns how long they wait and which goes next. Leaves opening them to `connect`, and the rule that only a connection whose
//! answer was read to its end comes back to `body`.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use oncekey_store::Clock;
use oncekey_tower::RequestBody;
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

/// The sending half of a connection; dropped, the connection closes once what it sends is sent.
pub(super) type Sender = SendRequest<RequestBody>;

pub(super) struct Pool {
    idle: Duration,
    max: usize,
    clock: Arc<dyn Clock>,
    waiting: Mutex<Waiting>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Waiting {
    /// With the time since when each waits; the longest-waiting first.
    connections: VecDeque<(Sender, Duration)>,
    /// Whether a task drops the expired ones.
    reaped: bool,
}

impl Pool {
    pub(super) fn new(idle: Duration, max: usize, clock: Arc<dyn Clock>) -> Self {
        Self { idle, max, clock, waiting: Mutex::default(), tasks: TaskTracker::new() }
    }

    /// The connection used last, if it isn't expired, closed, or still busy with its last request.
    pub(super) fn take(&self) -> Option<Sender> {
        let now = self.clock.elapsed();
        let mut waiting = self.waiting.lock();
        self.drop_expired(&mut waiting, now);
        let connections = &mut waiting.connections;
        for position in (0..connections.len()).rev() {
            let (sender, _) = &connections[position];
            if sender.is_ready() {
                return connections.remove(position).map(|(sender, _)| sender);
            }
            if sender.is_closed() {
                connections.remove(position);
            }
        }
        None
    }

    /// Keeps a connection for a next request. One still sending its last request's body isn't taken before that is sent:
    /// hyper says it isn't ready.
    pub(super) fn put(self: &Arc<Self>, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut waiting = self.waiting.lock();
        waiting.connections.push_back((sender, self.clock.elapsed()));
        if waiting.connections.len() > self.max {
            waiting.connections.pop_front();
        }
        if !waiting.reaped {
            waiting.reaped = true;
            self.tasks.spawn(reap(Arc::downgrade(self), self.idle));
        }
    }

    fn drop_expired(&self, waiting: &mut Waiting, now: Duration) {
        let expired = |since: &Duration| now.saturating_sub(*since) >= self.idle;
        while waiting.connections.front().is_some_and(|(_, since)| expired(since)) {
            waiting.connections.pop_front();
        }
    }
}

/// Closes expired connections also where no request comes any more, until none is left.
async fn reap(pool: Weak<Pool>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut waiting = pool.waiting.lock();
        pool.drop_expired(&mut waiting, pool.clock.elapsed());
        if waiting.connections.is_empty() {
            waiting.reaped = false;
            return;
        }
    }
}
