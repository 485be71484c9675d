//! Asking the store for a claim, in bounded time (D1, D2), and the claim once it is granted.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use oncekey_core::{Event, RecordId, Token};
use oncekey_store::{Claim, Claimed, Found, Store, StoreError};
use tokio::time::{Instant, sleep, timeout_at};

use crate::metered::store_errors;
use crate::recorder::{OpenId, Recorder};
use crate::{fault, random};

/// Between two tries to settle an ambiguous claim.
const PAUSE: Duration = Duration::from_millis(20);

/// What came of asking.
pub(crate) enum Answer {
    Granted {
        attempt: u32,
    },
    Held(Box<Found>),
    /// The store can't be reached, errs or takes too long.
    Unavailable,
    /// The claim was granted and has lapsed before the answer came.
    Lost,
    Unreadable,
}

/// A claim on its way to the store, owning all it needs: given up, it is seen to its end in the background.
pub(crate) type Asking = BoxFuture<'static, Result<Claimed, StoreError>>;

fn send(store: &Arc<dyn Store>, claim: &Claim) -> Asking {
    let (store, claim) = (Arc::clone(store), claim.clone());
    Box::pin(async move { store.claim(claim).await })
}

/// Asks until the store has answered or `timeout` has passed. An ambiguous answer is settled by asking again with the same
/// token: a claim that got through is then found and is ours (D2). A claim that is given up is released in the
/// background, once the store has answered it: released any earlier, it could still get through afterwards.
pub(crate) async fn ask(store: &Arc<dyn Store>, recorder: &Recorder, mut claim: Claim, timeout: Duration) -> Answer {
    let (id, token) = (claim.identity.id(), claim.token);
    let deadline = Instant::now() + timeout;
    // Dropping this future gives the claim up as well.
    let open = OpenClaim::asking(recorder, id, token);
    // Once one try was ambiguous, a later failure proves nothing about it.
    let mut ambiguous = false;
    loop {
        let mut asking = send(store, &claim);
        match timeout_at(deadline, &mut asking).await {
            Ok(Ok(Claimed::Granted { attempt, .. })) => {
                open.settled();
                return Answer::Granted { attempt };
            }
            Ok(Ok(Claimed::Held(_))) if fault::broken("grant_every_claim") => {
                open.settled();
                return Answer::Granted { attempt: 1 };
            }
            Ok(Err(_)) | Err(_) if fault::broken("execute_unclaimed") => {
                open.settled();
                return Answer::Granted { attempt: 1 };
            }
            // Ours, and lapsed while we asked: it is released, and whoever asks again finds it so.
            Ok(Ok(Claimed::Held(found))) if found.record.token == claim.token => return Answer::Lost,
            Ok(Ok(Claimed::Held(found))) => {
                open.settled();
                return Answer::Held(found);
            }
            Ok(Err(StoreError::MayHaveBeenApplied(_))) if fault::broken("grant_lost_claims") => {
                open.settled();
                return Answer::Granted { attempt: 1 };
            }
            Ok(Err(StoreError::MayHaveBeenApplied(error))) => {
                if fault::broken("another_token") {
                    claim.token = Token::from_bytes(random::bits());
                }
                tracing::warn!(operation = %id, %error, "a claim's acknowledgement was lost; asking again");
                ambiguous = true;
                // A store that fails fast never runs into the timeout by itself.
                if Instant::now() + PAUSE >= deadline {
                    return Answer::Unavailable;
                }
                sleep(PAUSE).await;
            }
            Ok(Err(StoreError::Corrupt(error))) => {
                open.settled_unless(ambiguous);
                tracing::error!(operation = %id, %error, "a record can't be read");
                return Answer::Unreadable;
            }
            Ok(Err(error @ (StoreError::NotApplied(_) | StoreError::Misconfigured(_)))) => {
                open.settled_unless(ambiguous);
                tracing::warn!(operation = %id, %error, "a claim failed");
                return Answer::Unavailable;
            }
            Err(_) => {
                tracing::warn!(operation = %id, "a claim took longer than store_timeout and is given up");
                open.settled();
                store_errors().increment(1); // the call itself goes on, and may still succeed
                recorder.release_after(asking, id, token);
                return Answer::Unavailable;
            }
        }
    }
}

/// A claim that isn't ended yet. Dropped, it is let go: released while nothing was executed, written off afterwards.
pub(crate) struct OpenClaim<'a> {
    recorder: &'a Recorder,
    id: RecordId,
    token: Token,
    executing: Option<OpenId>,
    settled: bool,
}

impl<'a> OpenClaim<'a> {
    fn asking(recorder: &'a Recorder, id: RecordId, token: Token) -> Self {
        Self { recorder, id, token, executing: None, settled: false }
    }

    /// A granted claim whose execution begins now.
    pub(crate) fn executing(recorder: &'a Recorder, id: RecordId, token: Token) -> Self {
        Self { recorder, id, token, executing: Some(recorder.execution_began()), settled: false }
    }

    /// The claim's outcome is in other hands: nothing is left to let go.
    pub(crate) fn settled(mut self) {
        self.settled = true;
    }

    fn settled_unless(mut self, ambiguous: bool) {
        self.settled = !ambiguous;
    }
}

impl Drop for OpenClaim<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.executing {
            self.recorder.execution_ended(open);
        }
        if !self.settled && !fault::broken("keep_lost_claims") {
            self.recorder.let_go(
                self.id,
                self.token,
                if self.executing.is_some() { Event::WriteOff } else { Event::Fail },
            );
        }
    }
}
