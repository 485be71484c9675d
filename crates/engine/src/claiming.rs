//! Asking the store for a claim, in bounded time (D1, D2), and the claim once it is granted.

use std::time::Duration;

use oncekey_core::{Event, RecordId, Token};
use oncekey_store::{Claim, Claimed, Found, Store, StoreError};
use tokio::time::{Instant, sleep, timeout_at};

use crate::fault;
use crate::recorder::Recorder;

/// Between two tries to settle an ambiguous claim.
const PAUSE: Duration = Duration::from_millis(20);

/// What came of asking.
pub(crate) enum Answer {
    Granted { attempt: u32 },
    Held(Box<Found>),
    Unavailable,
    Unreadable,
}

/// Asks until the store has answered or `timeout` has passed. An ambiguous answer is settled by asking again with the same
/// token: a claim that got through is then found and is ours (D2). A claim that is given up is released in the
/// background, since it may still get through.
pub(crate) async fn ask(store: &dyn Store, recorder: &Recorder, claim: Claim, timeout: Duration) -> Answer {
    let (id, token) = (claim.identity.id(), claim.token);
    let deadline = Instant::now() + timeout;
    // Dropping this future gives the claim up as well.
    let open = OpenClaim { recorder, id, token, event: Some(Event::Fail) };
    loop {
        match timeout_at(deadline, store.claim(claim.clone())).await {
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
            Ok(Ok(Claimed::Held(found))) => {
                open.settled();
                return Answer::Held(found);
            }
            Ok(Err(StoreError::MayHaveBeenApplied(error))) => {
                tracing::warn!(operation = %id, %error, "a claim's acknowledgement was lost; asking again");
                sleep(PAUSE).await;
            }
            Ok(Err(StoreError::Corrupt(error))) => {
                open.settled();
                tracing::error!(operation = %id, %error, "a record can't be read");
                return Answer::Unreadable;
            }
            Ok(Err(error @ (StoreError::NotApplied(_) | StoreError::Misconfigured(_)))) => {
                open.settled();
                tracing::warn!(operation = %id, %error, "a claim failed");
                return Answer::Unavailable;
            }
            Err(_) => {
                tracing::warn!(operation = %id, "a claim took longer than store_timeout and is given up");
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
    event: Option<Event>,
}

impl<'a> OpenClaim<'a> {
    /// A granted claim whose execution begins now.
    pub(crate) fn executing(recorder: &'a Recorder, id: RecordId, token: Token) -> Self {
        Self { recorder, id, token, event: Some(Event::WriteOff) }
    }

    /// The claim's outcome is in other hands: nothing is left to let go.
    pub(crate) fn settled(mut self) {
        self.event = None;
    }
}

impl Drop for OpenClaim<'_> {
    fn drop(&mut self) {
        if let Some(event) = self.event.take()
            && !fault::broken("keep_lost_claims")
        {
            self.recorder.let_go(self.id, self.token, event);
        }
    }
}
