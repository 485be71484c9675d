//! The end of the gateway's connections (D4): what stops first, what may finish, what is cut.
//!
//! Owns the tasks of the listener, its connections and their tunnels. Leaves executions to the engine, which drains by itself.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The handle by which all client connections are ended. Clones are the same handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drain {
    tasks: TaskTracker,
    stop: CancellationToken,
    cut: CancellationToken,
}

impl Drain {
    /// A handle with nothing to drain yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Goes on accepting for `delay`, then stops accepting and closes idle connections. Running requests go on. Dropping the
    /// future within `delay` leaves everything as it was.
    pub(crate) async fn begin(&self, delay: Duration) {
        tokio::time::sleep(delay).await;
        self.stop.cancel();
        self.tasks.close();
    }

    /// Waits until all connections have ended, at most for `limit`; whether they have.
    pub(crate) async fn ended_within(&self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.tasks.wait()).await.is_ok()
    }

    /// Cuts what still runs: requests, streams and tunnels. Returns how many.
    pub(crate) async fn cut_the_rest(&self) -> usize {
        let cut = self.tasks.len();
        self.cut.cancel();
        self.tasks.wait().await;
        cut
    }

    /// Runs a task that the drain waits for, and cuts when its time is over.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// A token of one task's own that is cancelled when accepting stops. A child, since the futures of one shared token
    /// would all contend for its mutex at each poll.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stop.child_token()
    }

    /// Resolves when what still runs is cut.
    pub(crate) async fn cut(&self) {
        self.cut.cancelled().await;
    }
}
