//! Writes outcomes until they stand (D2, D3, E4): repeated with the same token, bounded in time and in bytes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use metrics::{Counter, counter};
use oncekey_core::response::RecordedBody;
use oncekey_core::{Event, RecordId, RecordedResponse, Token};
use oncekey_store::{Found, Outcome, Recorded, Store, StoreError};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::task::TaskTracker;

use crate::claiming::Asking;
use crate::fault;

/// Between two tries; doubled up to the second value.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Writes given up or let go at once; each holds a task.
const MAX_LET_GO: usize = 10_000;

pub(crate) struct Recorder {
    store: Arc<dyn Store>,
    tasks: TaskTracker,
    retry: Duration,
    max_bytes: usize,
    bytes: AtomicUsize,
    /// Claims granted here whose outcome isn't recorded or given up yet.
    open: Mutex<BTreeMap<OpenId, Instant>>,
    claims: AtomicU64,
    fenced: Counter,
    letting_go: Arc<AtomicUsize>,
}

/// A claim that is open, by the order of the granted claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpenId(u64);

/// How a write ended.
pub(crate) enum Written {
    /// It stands.
    Stands,
    /// Someone else governs the record.
    Fenced(Option<Box<Found>>),
    /// Given up: the record lapses, and counts as unknown from then on.
    GivenUp,
}

impl Recorder {
    pub(crate) fn new(store: Arc<dyn Store>, tasks: TaskTracker, retry: Duration, max_bytes: usize) -> Self {
        Self {
            store,
            tasks,
            retry,
            max_bytes,
            bytes: AtomicUsize::new(0),
            open: Mutex::default(),
            claims: AtomicU64::new(0),
            // There from the start, so that an alert sees zero and not nothing.
            fenced: counter!("oncekey_fenced_writes_total"),
            letting_go: Arc::default(),
        }
    }

    pub(crate) fn execution_began(&self) -> OpenId {
        let id = OpenId(self.claims.fetch_add(1, Ordering::Relaxed));
        self.open.lock().insert(id, Instant::now());
        id
    }

    pub(crate) fn execution_ended(&self, id: OpenId) {
        self.open.lock().remove(&id);
    }

    /// How long the oldest of the open claims has been executing.
    pub(crate) fn oldest_claim(&self) -> Option<Duration> {
        self.open.lock().first_key_value().map(|(_, began)| began.elapsed())
    }

    /// How many executions have no recorded end yet.
    pub(crate) fn open_claims(&self) -> usize {
        self.open.lock().len()
    }

    /// Writes until it stands, is refused, or `record_retry` has passed.
    pub(crate) async fn write(&self, id: RecordId, token: Token, outcome: Outcome) -> Written {
        let event = outcome.event;
        let written = write(&*self.store, id, token, outcome, self.retry).await;
        if let Written::Fenced(_) = &written {
            self.fenced.increment(1);
            tracing::warn!(operation = %id, ?event, "an outcome was refused: the record isn't this claim's any more");
        }
        written
    }

    /// Says that a write is being waited for after its answer was given (D3). Past the bound in bytes the outcome is
    /// recorded without its body, which is safe: a retry gets `response-not-stored` and nothing runs again.
    pub(crate) fn outlive(&self, outcome: &mut Outcome) -> Outlived<'_> {
        let bytes = outcome.response.as_deref().map_or(0, body_len);
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        if before + bytes <= self.max_bytes {
            return Outlived { recorder: self, bytes, stripped: false };
        }
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        tracing::warn!("too many bytes wait to be recorded: an outcome is kept without its body");
        if let Some(response) = &mut outcome.response {
            *response = Arc::new(response.without_body());
        }
        Outlived { recorder: self, bytes: 0, stripped: true }
    }

    /// Ends a claim in the background: `Fail` for one that was given up before anything was executed (D2), `WriteOff` for
    /// one whose execution was lost (E4).
    pub(crate) fn let_go(&self, id: RecordId, token: Token, event: Event) {
        self.let_go_after(std::future::ready(()), id, token, event);
    }

    /// Releases a given-up claim in the background once the store has answered it (D2).
    pub(crate) fn release_after(&self, asking: Asking, id: RecordId, token: Token) {
        let retry = self.retry;
        let answered = async move {
            let _ = timeout(retry, asking).await;
        };
        self.let_go_after(answered, id, token, Event::Fail);
    }

    fn let_go_after(
        &self,
        before: impl Future<Output = ()> + Send + 'static,
        id: RecordId,
        token: Token,
        event: Event,
    ) {
        if self.letting_go.fetch_add(1, Ordering::AcqRel) >= MAX_LET_GO {
            self.letting_go.fetch_sub(1, Ordering::AcqRel);
            tracing::warn!(operation = %id, "too many claims to let go of; this one lapses instead");
            return;
        }
        let (store, retry, letting_go) = (Arc::clone(&self.store), self.retry, Arc::clone(&self.letting_go));
        self.tasks.spawn(async move {
            before.await;
            let _ = write(&*store, id, token, Outcome { event, response: None }, retry).await;
            letting_go.fetch_sub(1, Ordering::AcqRel);
        });
    }
}

/// A share of the bytes that wait to be recorded.
pub(crate) struct Outlived<'a> {
    recorder: &'a Recorder,
    bytes: usize,
    /// Whether the outcome lost its body. An earlier try may have got through with it, so only the store knows which
    /// of the two is replayed.
    pub(crate) stripped: bool,
}

impl Drop for Outlived<'_> {
    fn drop(&mut self) {
        self.recorder.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

fn body_len(response: &RecordedResponse) -> usize {
    match &response.body {
        RecordedBody::Stored(body) => body.len(),
        RecordedBody::NotStored => 0,
    }
}

async fn write(store: &dyn Store, id: RecordId, token: Token, outcome: Outcome, retry: Duration) -> Written {
    let deadline = Instant::now() + retry;
    let mut pause = PAUSE.0;
    loop {
        match timeout_at(deadline, store.record(id, token, outcome.clone())).await {
            Ok(Ok(Recorded::Written { .. })) => return Written::Stands,
            Ok(Ok(Recorded::Fenced(found))) => return Written::Fenced(found),
            // Nothing else is given up: a right that was revoked, or a role that was switched, may be set right in time (D3).
            Ok(Err(error @ StoreError::Corrupt(_))) => {
                tracing::error!(operation = %id, %error, "an outcome can't be recorded");
                return Written::GivenUp;
            }
            Ok(Err(_)) if fault::broken("forget_outcomes") => return Written::GivenUp,
            Ok(Err(error)) => tracing::warn!(operation = %id, %error, "an outcome isn't recorded yet; trying again"),
            Err(_) => {
                tracing::error!(operation = %id, "an outcome could not be recorded in time and is given up");
                return Written::GivenUp;
            }
        }
        // A store that fails fast never runs into the deadline by itself.
        if Instant::now() + pause >= deadline {
            tracing::error!(operation = %id, "an outcome could not be recorded in time and is given up");
            return Written::GivenUp;
        }
        sleep(pause).await;
        pause = PAUSE.1.min(pause * 2);
    }
}
