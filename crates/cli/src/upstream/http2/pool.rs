//! The HTTP/2 connections to the upstream, and which takes the next stream (E12).
//!
//! Owns their number and their end. Leaves opening them to its caller, one at a time: else each of the first hundred requests
//! would open one of its own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use oncekey_engine::NotExecuted;
use parking_lot::Mutex;
use tokio::sync::{MutexGuard, Notify};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use super::connection::{Connection, Place, Vacancy};

/// How often, at most, connections are looked at that nobody asks for any more.
const REAPED_EVERY: Duration = Duration::from_millis(100);

pub(in crate::upstream) struct Pool {
    idle: Duration,
    /// The most connections; past them a request waits for a stream to end.
    max: usize,
    kept: Mutex<Kept>,
    /// Told each time a stream has ended.
    freed: Arc<Notify>,
    opening: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Kept {
    connections: Vec<Arc<Connection>>,
    /// Whether a task drops those that are gone.
    reaped: bool,
}

/// What there is for a request.
pub(in crate::upstream) enum Look {
    Place(Place),
    /// No connection takes one now, and there may be no more of them.
    Full,
    /// A connection may be opened.
    Room,
}

impl Pool {
    pub(in crate::upstream) fn new(idle: Duration, max: usize) -> Self {
        Self {
            idle,
            max,
            kept: Mutex::default(),
            freed: Arc::default(),
            opening: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// A place on a connection that is known to live, or `None` if one should be opened.
    pub(in crate::upstream) async fn take(&self, deadline: Instant) -> Result<Option<Place>, NotExecuted> {
        loop {
            match self.look() {
                Look::Place(place) => return Ok(Some(place)),
                Look::Room => return Ok(None),
                Look::Full => {
                    let late = |_| NotExecuted::because("no stream to the upstream became free in time");
                    timeout_at(deadline, self.freed.notified()).await.map_err(late)?;
                }
            }
        }
    }

    /// Looks without waiting; forgets the connections that are gone, which close when their streams have ended.
    pub(in crate::upstream) fn look(&self) -> Look {
        let mut kept = self.kept.lock();
        self.drop_gone(&mut kept);
        let free = |connection: &&Arc<Connection>| connection.vacancy(self.idle) == Vacancy::Free;
        let place = kept.connections.iter().filter(free).find_map(|connection| connection.reserve(&self.freed));
        match place {
            Some(place) => Look::Place(place),
            None if kept.connections.len() >= self.max => Look::Full,
            None => Look::Room,
        }
    }

    /// The right to open a connection, which one request has at a time.
    pub(in crate::upstream) async fn to_open(&self, deadline: Instant) -> Result<MutexGuard<'_, ()>, NotExecuted> {
        let late = |_| NotExecuted::because("the upstream wasn't reached in time");
        timeout_at(deadline, self.opening.lock()).await.map_err(late)
    }

    /// Keeps a new connection, and returns its first place. `None`: its peer takes no streams.
    pub(in crate::upstream) fn add(self: &Arc<Self>, connection: Arc<Connection>) -> Option<Place> {
        let place = connection.reserve(&self.freed);
        let mut kept = self.kept.lock();
        kept.connections.push(connection);
        if !kept.reaped {
            kept.reaped = true;
            self.tasks.spawn(reap(Arc::downgrade(self), self.idle.max(REAPED_EVERY)));
        }
        place
    }

    fn drop_gone(&self, kept: &mut Kept) {
        kept.connections.retain(|connection| connection.vacancy(self.idle) != Vacancy::Gone);
    }
}

/// Closes idle connections also where no request comes any more, until none is left.
async fn reap(pool: Weak<Pool>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut kept = pool.kept.lock();
        pool.drop_gone(&mut kept);
        if kept.connections.is_empty() {
            kept.reaped = false;
            return;
        }
    }
}
