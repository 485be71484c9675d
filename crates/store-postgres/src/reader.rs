//! Reading records together: what waits is read by one statement.
//!
//! To begin a statement costs the server more than to find a record; those that are asked for while one statement runs share
//! the next.

use std::sync::Arc;

use oncekey_core::RecordId;
use oncekey_store::Found;
use tokio::sync::{mpsc, oneshot};

use crate::error::Failure;
use crate::lookup::{self, TOGETHER};
use crate::session::Session;

/// A reading whose caller waits.
struct Job {
    id: RecordId,
    reply: oneshot::Sender<Result<Option<Found>, Failure>>,
}

/// The way to a reader. Dropping it ends the reader once it has answered.
pub(crate) struct Reader(mpsc::Sender<Job>);

impl Reader {
    /// Starts one on a connection that others may use as well. Must be called within a Tokio runtime.
    pub(crate) fn start(session: Arc<Session>) -> Self {
        let (sender, queue) = mpsc::channel(session.server().options().queue.max(1));
        let tasks = session.server().tasks().clone();
        tasks.spawn(run(session, queue));
        Self(sender)
    }

    /// The record under `id` with its response, as of after this was called.
    pub(crate) async fn read(&self, id: RecordId) -> Result<Option<Found>, Failure> {
        let (reply, answer) = oneshot::channel();
        self.0.send(Job { id, reply }).await.map_err(|_| Failure::Closed)?;
        answer.await.unwrap_or(Err(Failure::Closed))
    }
}

async fn run(session: Arc<Session>, mut queue: mpsc::Receiver<Job>) {
    let mut jobs = Vec::with_capacity(TOGETHER);
    while queue.recv_many(&mut jobs, TOGETHER).await > 0 {
        // Whoever has gone doesn't want to know.
        jobs.retain(|job| !job.reply.is_closed());
        if jobs.is_empty() {
            continue;
        }
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        match lookup::read_several(&session, &ids).await {
            Ok(found) => jobs.drain(..).zip(found).for_each(|(job, found)| _ = job.reply.send(found)),
            Err(failure) => jobs.drain(..).for_each(|job| _ = job.reply.send(Err(failure.clone()))),
        }
    }
}
