//! The one thread that writes.
//!
//! It takes everything that is waiting as one batch, runs it in one transaction, commits once and answers all. Nothing
//! is delayed to fill a batch: while one commit waits for the disk, the next batch gathers by itself. What a batch does
//! is in `batch`, what one operation is in `operation`; here are the queue, the thread, and its end.

mod batch;
mod operation;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use oncekey_store::{Clock, StoreError};
use tokio::sync::oneshot;

use crate::SqliteOptions;
use crate::connection::Place;
use crate::error::Failure;
use batch::Batches;
use operation::{Job, Pending};
pub(crate) use operation::{Operation, Transaction};

/// Most operations of a batch, and most bytes of bodies: what bounds how long the first of them waits for the last.
const BATCH_OPERATIONS: usize = 512;
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// The queue of the writer, and its thread.
pub(crate) struct Writer {
    queue: Option<SyncSender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread on a database whose schema was checked. `commits` counts the transactions that it commits.
    pub(crate) fn start(
        place: Place,
        options: SqliteOptions,
        clock: Arc<dyn Clock>,
        commits: Arc<AtomicU64>,
    ) -> Result<Self, Failure> {
        let (queue, jobs) = sync_channel(options.queue.max(1));
        let path = place.path.clone();
        let mut batches = Batches::new(place, options, clock, commits)?;
        let thread = thread::Builder::new()
            .name("oncekey-writer".to_owned())
            .spawn(move || work(&jobs, &mut batches))
            .map_err(|error| Failure::File { path, error })?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Has the operation run and committed. Handed over when this is first polled; dropping the future later changes
    /// nothing.
    pub(crate) async fn run<O: Operation>(&self, operation: O) -> Result<O::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(|| Failure::Closed.not_applied())?;
        queue.try_send(Box::new(Pending::new(operation, reply))).map_err(|error| match error {
            TrySendError::Full(_) => Failure::QueueFull.not_applied(),
            TrySendError::Disconnected(_) => Failure::Closed.not_applied(),
        })?;
        // No answer: the thread panicked outside of an operation, and who knows where.
        answer.await.unwrap_or_else(|_| Err(Failure::Panicked.ambiguous()))
    }
}

impl Drop for Writer {
    /// Lets the thread finish what was queued, and waits for it.
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // It catches its own panics.
            let _ = thread.join();
        }
    }
}

/// Until the last handle is gone. A panic costs the batch in which it happened, whose callers are told, and no more.
fn work(jobs: &Receiver<Box<dyn Job>>, batches: &mut Batches) {
    let mut left = Vec::new();
    loop {
        if left.is_empty() {
            let Ok(first) = jobs.recv() else { return };
            left.push(first);
        }
        let batch = gather(left, jobs);
        left = catch_unwind(AssertUnwindSafe(|| batches.run(batch))).unwrap_or_else(|_| {
            tracing::error!("a bug: the writer of the SQLite store panicked; it goes on with a new connection");
            batches.reconnect();
            Vec::new()
        });
    }
}

fn gather(mut batch: Vec<Box<dyn Job>>, jobs: &Receiver<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
    let mut bytes: usize = batch.iter().map(|job| job.size()).sum();
    while batch.len() < BATCH_OPERATIONS && bytes < BATCH_BYTES {
        let Ok(job) = jobs.try_recv() else { break };
        bytes += job.size();
        batch.push(job);
    }
    batch
}
