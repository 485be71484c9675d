//! What an execution knows about itself, and the check right before its first byte (E10).

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::policy::Policy;
use oncekey_core::{RecordId, State, Token};
use oncekey_store::{Clock, Store};

use crate::fault;

/// Proof that nothing of the operation was executed (E6). An execution that fails with this, anywhere in its error's chain
/// of sources, leaves the record `failed`; any other error leaves it ambiguous.
#[derive(Clone, Debug, thiserror::Error)]
#[error("nothing was executed: {reason}")]
pub struct NotExecuted {
    reason: String,
}

impl NotExecuted {
    /// States why nothing was executed: a sentence without credentials, bodies or keys, since it is logged (P2).
    pub fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }

    /// Looks for the proof in an error and its sources.
    pub fn find<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let chain = std::iter::successors(Some(error), |error| error.source());
        chain.into_iter().find_map(|error| error.downcast_ref())
    }
}

/// One execution of a record. The HTTP layer puts it into the extensions of the request it passes on.
#[derive(Clone)]
pub struct Attempt {
    /// The operation id.
    pub id: RecordId,
    /// 1 for the first execution, then 2, …
    pub number: u32,
    /// The route's policy.
    pub policy: Arc<Policy>,
    pub(crate) claim: Arc<Confirmed>,
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempt").field("id", &self.id).field("number", &self.number).finish_non_exhaustive()
    }
}

/// A claim that the store has confirmed, and the means to confirm it again.
pub(crate) struct Confirmed {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) token: Token,
    /// [`Clock::elapsed`] from before the last heartbeat before the claim: both are valid for a lease from then on (E4).
    pub(crate) at: Duration,
    pub(crate) lease: Duration,
}

impl Attempt {
    /// Asks, right before the first byte leaves, whether this attempt may still execute (E10): by a clock that runs through
    /// suspend, less than `lease` has passed since the claim; else the store is asked whether the claim still stands. May
    /// be called again; calls nothing but the store. Between `Ok` and the byte a process can still be paused: with
    /// `hold`, nobody else executes meanwhile, so that window costs a wrong `unknown` and never a second execution.
    pub async fn begin(&self) -> Result<(), NotExecuted> {
        fault::point("before_send").await;
        self.confirm().await?;
        fault::point("after_check").await;
        Ok(())
    }

    async fn confirm(&self) -> Result<(), NotExecuted> {
        let since_heartbeat = self.claim.clock.elapsed().saturating_sub(self.claim.at);
        if since_heartbeat < self.claim.lease || fault::broken("send_after_lease") {
            return Ok(());
        }
        let asked = self.claim.clock.elapsed();
        let read = tokio::time::timeout(self.claim.lease, self.claim.store.read(self.id)).await;
        // A pause can come during the reading as well; its answer is no fresher than the question.
        let fresh = self.claim.clock.elapsed().saturating_sub(asked) < self.claim.lease;
        match read {
            Ok(Ok(Some(found)))
                if fresh && found.record.token == self.claim.token && found.record.state == State::Processing =>
            {
                Ok(())
            }
            Ok(Ok(_)) if fresh => Err(NotExecuted::because("the claim lapsed before anything was sent")),
            Ok(_) | Err(_) => {
                Err(NotExecuted::because("the claim is older than the lease and the store did not confirm it again"))
            }
        }
    }
}
