//! The streams of an HTTP/2 connection: each a task, ended when its client takes nothing of its answer any more.
//!
//! hyper and h2 bound how many there are and what they hold. What they don't see is told here: an answer that is stuck in
//! flow control, and a client that resets what it has just asked for, again and again.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::flow::Flow;

/// Runs the streams of one connection. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Streams(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The exchange whose stream hyper hands over next: it calls the service, then the executor.
    next: Mutex<Option<Arc<Flow>>>,
    /// How long an answer may wait with nothing of it taken.
    patience: Duration,
    /// Streams that ended before their answer was given, less those that were answered.
    resets: AtomicU32,
    most_resets: u32,
    tasks: TaskTracker,
    broken: CancellationToken,
}

impl Streams {
    /// `patience` is how long an answer may wait for its client; `most` bounds the streams that may be reset in a row.
    pub(super) fn new(patience: Duration, most: u32) -> Self {
        Self(Arc::new(Shared {
            next: Mutex::default(),
            patience,
            resets: AtomicU32::new(0),
            most_resets: most,
            tasks: TaskTracker::new(),
            broken: CancellationToken::new(),
        }))
    }

    /// Announces the exchange of the stream that comes next.
    pub(super) fn announce(&self, flow: &Arc<Flow>) {
        *self.0.next.lock() = Some(Arc::clone(flow));
    }

    /// Resolves when the client's behaviour ends the connection.
    pub(super) async fn broken(&self) {
        self.0.broken.cancelled().await;
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let flow = self.0.next.lock().take();
        let shared = Arc::clone(&self.0);
        self.0.tasks.spawn(async move {
            match flow {
                Some(flow) => shared.run(stream, &flow).await,
                None => stream.await,
            }
        });
    }
}

impl Shared {
    /// Runs a stream until its answer is with the client. Dropped, a stream is reset.
    async fn run(&self, stream: impl Future<Output = ()>, flow: &Flow) {
        let mut stream = pin!(Some(stream));
        let mut seen = flow.moved();
        loop {
            let ended = stream.is_none();
            let answer = async {
                match stream.as_mut().as_pin_mut() {
                    Some(stream) => stream.await,
                    None => flow.taken().await,
                }
            };
            tokio::select! {
                biased;
                () = answer => {
                    if ended {
                        return;
                    }
                    stream.set(None);
                    self.count(flow);
                }
                () = tokio::time::sleep(self.patience) => {
                    let moved = flow.moved();
                    if flow.waits() && moved == seen {
                        // What h2 holds of an answer that was handed over whole goes only with the connection.
                        if ended {
                            self.broken.cancel();
                        } else {
                            self.count(flow);
                        }
                        return;
                    }
                    seen = moved;
                }
            }
        }
    }

    fn count(&self, flow: &Flow) {
        let change =
            |resets: u32| Some(if flow.is_answered() { resets.saturating_sub(1) } else { resets.saturating_add(1) });
        let before = self.resets.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
        if !flow.is_answered() && before.is_ok_and(|before| before >= self.most_resets) {
            self.broken.cancel();
        }
    }
}
