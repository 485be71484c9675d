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

    /// Ends all connections: goes on accepting for `delay`, then stops accepting, closes idle connections, and lets running
    /// requests finish for at most `limit`; streams and tunnels are then cut. Returns how many tasks were cut. Dropping the
    /// future leaves the drain where it is; it may be called again.
    pub(crate) async fn drain(&self, delay: Duration, limit: Duration) -> usize {
        tokio::time::sleep(delay).await;
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(limit, self.tasks.wait()).await.is_ok() {
            return 0;
        }
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
