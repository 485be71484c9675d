//! Writers: one task for claims, one for outcomes, each on a connection of its own.
//!
//! A writer takes everything that is waiting as one batch and writes it by one statement, which commits by itself. Nothing is
//! delayed to fill a batch: while one commit waits for the disk, the next batch gathers by itself. Claims and outcomes don't
//! wait for each other, so that a flood of new requests can't keep those that have ended from being recorded.
//!
//! What a batch writes is in `claims` and `outcomes`; here are the queue, the batches, and the truth for each caller when
//! something fails.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use oncekey_core::RecordId;
use oncekey_store::StoreError;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::error::Failure;
use crate::session::{Server, Session};

/// Most operations of a batch, and most bytes of bodies: what bounds how long the first of them waits for the last.
const BATCH_OPERATIONS: usize = 512;
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// How often a batch is tried that fell victim to a deadlock or the like.
const TRIES: u32 = 5;

/// How long the parts of a batch that was held up wait for the row: long enough for another node's commit, and short enough
/// that finding the one that is in the way costs the others little.
const HELD_UP_AGAIN: Duration = Duration::from_millis(100);

/// What can be written in batches.
pub(crate) trait Write: Send + Sync + 'static {
    /// What its caller gets; `None` where the statement wrote nothing for it.
    type Written: Send + 'static;

    /// What one batch leaves for the next to know.
    type Memory: Default + Send + 'static;

    /// The record it is about. No batch has two that are about the same.
    fn id(&self) -> RecordId;

    /// The bytes of the body that it writes.
    fn size(&self) -> usize;

    /// Writes a batch, sorted by id, by statements of which each commits by itself and each either writes or finds its work
    /// done; the answers come in the batch's order, and one may have failed alone. Rows held by others are waited for up to
    /// `lock_timeout`.
    fn write(
        batch: &[&Self],
        session: &Session,
        lock_timeout: Duration,
        memory: &mut Self::Memory,
    ) -> impl Future<Output = Result<Vec<Answer<Self>>, Failure>> + Send;
}

/// What became of one operation of a batch; `None` where the statement wrote nothing for it.
pub(crate) type Answer<W> = Option<Result<<W as Write>::Written, Failure>>;

/// An operation whose caller waits.
struct Job<W: Write> {
    work: W,
    reply: oneshot::Sender<Result<Option<W::Written>, StoreError>>,
}

/// The way to a writer. Dropping it lets the writer finish what was handed over.
pub(crate) struct Writer<W: Write>(mpsc::Sender<Job<W>>);

impl<W: Write> Writer<W> {
    /// Starts a writer. Must be called within a Tokio runtime.
    pub(crate) fn start(server: &Arc<Server>) -> Self {
        let (sender, queue) = mpsc::channel(server.options().queue.max(1));
        let lane = Lane::<W> { session: Session::new(server), in_doubt: false, memory: W::Memory::default() };
        server.tasks().spawn(lane.run(queue));
        Self(sender)
    }

    /// Has it written and committed. Handed over when this is first polled; dropping the future later changes nothing.
    pub(crate) async fn run(&self, work: W) -> Result<Option<W::Written>, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.0.try_send(Job { work, reply }).map_err(|error| match error {
            TrySendError::Full(_) => Failure::QueueFull.not_applied(),
            TrySendError::Closed(_) => Failure::Closed.not_applied(),
        })?;
        // No answer: the runtime is going down, or the task panicked, and who knows where.
        answer.await.unwrap_or_else(|_| Err(StoreError::MayHaveBeenApplied(Failure::Closed.into())))
    }
}

/// A writer's task.
struct Lane<W: Write> {
    session: Session,
    /// Whether something may have been committed that no standby has: set by each ambiguous end.
    in_doubt: bool,
    memory: W::Memory,
}

impl<W: Write> Lane<W> {
    async fn run(mut self, mut queue: mpsc::Receiver<Job<W>>) {
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                match queue.recv().await {
                    Some(job) => waiting.push_back(job),
                    None => return,
                }
            }
            while waiting.len() < BATCH_OPERATIONS
                && let Ok(job) = queue.try_recv()
            {
                waiting.push_back(job);
            }
            self.write_all(gather(&mut waiting)).await;
        }
    }

    /// Writes a batch and answers every caller. A part of it that is refused is halved until what can't be written stands
    /// alone, so that none fails for another's fault.
    async fn write_all(&mut self, batch: Vec<Job<W>>) {
        let mut parts = vec![(batch, self.session.server().options().lock_timeout)];
        while let Some((mut part, lock_timeout)) = parts.pop() {
            let works: Vec<_> = part.iter().map(|job| &job.work).collect();
            match self.write(&works, lock_timeout).await {
                Ok(written) => {
                    for (job, written) in part.into_iter().zip(written) {
                        // A caller that has gone doesn't want to know.
                        let _ = job.reply.send(written.transpose().map_err(Failure::of_write));
                    }
                }
                Err(failure) if part.len() > 1 && failure.refused_with().is_some() => {
                    let lock_timeout =
                        if failure.is_held_up() { lock_timeout.min(HELD_UP_AGAIN) } else { lock_timeout };
                    let second = part.split_off(part.len() / 2);
                    parts.extend([(second, lock_timeout), (part, lock_timeout)]);
                }
                Err(failure) => part.into_iter().for_each(|job| _ = job.reply.send(Err(failure.clone().of_write()))),
            }
        }
    }

    async fn write(&mut self, batch: &[&W], lock_timeout: Duration) -> Result<Vec<Answer<W>>, Failure> {
        for _ in 1..TRIES {
            match self.write_once(batch, lock_timeout).await {
                // The same tokens again: what got through, if anything did, is found.
                Err(failure) if failure.is_transient() => {}
                answer => return answer,
            }
        }
        self.write_once(batch, lock_timeout).await
    }

    async fn write_once(&mut self, batch: &[&W], lock_timeout: Duration) -> Result<Vec<Answer<W>>, Failure> {
        self.session.connect().await?;
        if self.in_doubt {
            self.settle().await?;
        }
        let written = W::write(batch, &self.session, lock_timeout, &mut self.memory).await;
        let is_ambiguous = written.as_ref().is_err_and(|failure| failure.refused_with().is_none());
        // The only warning that such a statement can cause: someone ended its wait for the standbys.
        if is_ambiguous || self.session.take_warning().await {
            self.in_doubt = true;
        }
        let written = written?;
        if self.in_doubt {
            self.settle().await?;
        }
        Ok(written)
    }

    /// Commits something that changes nothing. Once that is on the standbys that commits wait for, everything before it is.
    async fn settle(&mut self) -> Result<(), Failure> {
        let settled = self.session.query("UPDATE idempotency_sweeps SET one = one", &[]).await;
        if self.session.take_warning().await || settled.is_err() {
            return Err(Failure::NotReplicated);
        }
        self.in_doubt = false;
        Ok(())
    }
}

/// The next batch, in the order of the ids: two nodes that write the same records in another order would deadlock. What is
/// about a record that is in it already stays for the next one.
fn gather<W: Write>(waiting: &mut VecDeque<Job<W>>) -> Vec<Job<W>> {
    let (mut batch, mut ids, mut bytes) = (Vec::new(), HashSet::new(), 0);
    let mut left = VecDeque::new();
    while batch.len() < BATCH_OPERATIONS
        && bytes < BATCH_BYTES
        && let Some(job) = waiting.pop_front()
    {
        if ids.insert(job.work.id()) {
            bytes += job.work.size();
            batch.push(job);
        } else {
            left.push_back(job);
        }
    }
    left.append(waiting);
    *waiting = left;
    batch.sort_unstable_by_key(|job| *job.work.id().as_bytes());
    batch
}
