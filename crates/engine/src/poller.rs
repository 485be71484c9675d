//! Looks after records that other nodes own, for all waiters of this process with one query at a time (W1).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use oncekey_core::RecordId;
use oncekey_store::{Found, Store};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How long questions are gathered. A store on the same host is asked 40 times a second while anyone waits, and never
/// while nobody does.
const GATHER: Duration = Duration::from_millis(25);

/// How long one query may take; a store that hangs must not keep later questions from being asked.
const PATIENCE: Duration = Duration::from_secs(5);

/// Records per query.
const BATCH: usize = 500;

type Question = (RecordId, oneshot::Sender<Look>);

/// What a look at a record showed.
pub(crate) enum Look {
    /// The record, without its response.
    Found(Box<Found>),
    /// There is no record any more.
    Gone,
    /// The store did not answer.
    NoAnswer,
}

/// Answers "has it ended?" in batches.
pub(crate) struct Poller(mpsc::Sender<Question>);

impl Poller {
    /// The poller, and the task that answers it.
    pub(crate) fn new(store: Arc<dyn Store>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = mpsc::channel(BATCH);
        (Self(sender), poll(store, receiver))
    }

    /// The record at the next look.
    pub(crate) async fn look(&self, id: RecordId) -> Look {
        let (sender, receiver) = oneshot::channel();
        if self.0.send((id, sender)).await.is_err() {
            return Look::NoAnswer;
        }
        receiver.await.unwrap_or(Look::NoAnswer)
    }
}

async fn poll(store: Arc<dyn Store>, mut questions: mpsc::Receiver<Question>) {
    let mut batch = Vec::new();
    while questions.recv_many(&mut batch, BATCH).await > 0 {
        tokio::time::sleep(GATHER).await;
        while batch.len() < BATCH
            && let Ok(question) = questions.try_recv()
        {
            batch.push(question);
        }
        let ids: Vec<_> = batch.iter().map(|(id, _)| *id).collect();
        let found = timeout(PATIENCE, store.peek(&ids)).await.ok().and_then(Result::ok);
        let found: Option<HashMap<_, _>> =
            found.map(|all| all.into_iter().map(|found| (found.record.identity.id(), found)).collect());
        for (id, asker) in batch.drain(..) {
            let look = match &found {
                None => Look::NoAnswer,
                Some(found) => found.get(&id).map_or(Look::Gone, |found| Look::Found(Box::new(found.clone()))),
            };
            let _ = asker.send(look); // whoever asked may have gone
        }
    }
}
