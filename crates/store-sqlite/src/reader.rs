//! Threads that read, each with a connection of its own that can't write.
//!
//! Looking up records and scanning them are kept apart, so that a long listing doesn't hold up a replay. What is read is
//! in `lookup` and `listing`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use oncekey_store::StoreError;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::SqliteOptions;
use crate::connection::{self, Place, Purpose};
use crate::error::Failure;
use crate::guard::Guard;

type Task = Box<dyn FnOnce(&Connection) + Send>;

/// A few threads that share a queue.
pub(crate) struct Readers {
    queue: Option<SyncSender<Task>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Starts `count` threads on a database whose schema was checked.
    pub(crate) fn start(place: &Place, options: &SqliteOptions, name: &str, count: usize) -> Result<Self, Failure> {
        Self::start_guarded(place, options, name, count, None)
    }

    /// The same; a guard is asked about all that is read.
    pub(crate) fn start_guarded(
        place: &Place,
        options: &SqliteOptions,
        name: &str,
        count: usize,
        guard: Option<&Guard>,
    ) -> Result<Self, Failure> {
        let (queue, tasks) = sync_channel(options.queue.max(1));
        let tasks = Arc::new(Mutex::new(tasks));
        let mut readers = Self { queue: Some(queue), threads: Vec::with_capacity(count) };
        for _ in 0..count {
            let mut connection = connection::open(place, options, Purpose::Read)?;
            if let Some(guard) = guard {
                guard.watch(&mut connection)?;
            }
            let tasks = tasks.clone();
            let thread = thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || work(&tasks, &connection))
                .map_err(|error| Failure::File { path: place.path.clone(), error })?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Has `read` run on one of the threads.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(|| Failure::Closed.not_applied())?;
        let task: Task = Box::new(move |connection| {
            // A caller that has gone doesn't want to know.
            let _ = reply.send(read(connection));
        });
        queue.try_send(task).map_err(|error| match error {
            TrySendError::Full(_) => Failure::QueueFull.not_applied(),
            TrySendError::Disconnected(_) => Failure::Closed.not_applied(),
        })?;
        answer.await.unwrap_or(Err(Failure::Panicked)).map_err(Failure::not_applied)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        drop(self.queue.take());
        for thread in self.threads.drain(..) {
            // It catches its own panics.
            let _ = thread.join();
        }
    }
}

fn work(tasks: &Mutex<Receiver<Task>>, connection: &Connection) {
    loop {
        // The one that waits holds the mutex; the others wait for that, which comes to the same.
        let next = tasks.lock().recv();
        let Ok(task) = next else { return };
        if catch_unwind(AssertUnwindSafe(|| task(connection))).is_err() {
            tracing::error!("a bug: a reader of the SQLite store panicked; its caller was told");
        }
    }
}
