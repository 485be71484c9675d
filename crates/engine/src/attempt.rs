//! What an execution knows about itself, and the check right before its first byte (E10).

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::policy::Policy;
use oncekey_core::{OwnerId, RecordId, Standing, Token, standing};
use oncekey_store::{Clock, Fence, Found, Store, StoreError, TransactionHandle};

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
    /// The transaction in which it works and is recorded (G3), in transactional mode. The HTTP layer moves it into the
    /// extensions of the request.
    pub transaction: Option<TransactionHandle>,
    /// `None` in a transaction, whose claim stands as long as that is open.
    pub(crate) claim: Option<Arc<Confirmed>>,
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
    pub(crate) owner: OwnerId,
    /// [`Clock::elapsed`] from before the last heartbeat before the claim: both are valid for a lease from then on (E4).
    pub(crate) at: Duration,
    pub(crate) lease: Duration,
}

impl Attempt {
    /// What its own writes beside the record are fenced by: recovery points. `None` in transactional mode.
    pub fn fence(&self) -> Option<Fence> {
        self.claim.as_ref().map(|claim| Fence { id: self.id, token: claim.token })
    }

    /// Asks, right before the first byte leaves, whether this attempt may still execute (E10): by a clock that runs through
    /// suspend, less than `lease` has passed since the claim; else the store is asked whether the claim still stands. May
    /// be called again; calls nothing but the store. Between `Ok` and the byte a process can still be paused: with
    /// `hold`, nobody else executes meanwhile unless an operator says `failed`, so that window costs a wrong `unknown`. With
    /// `retry` and `probe` a retry elsewhere may have taken the record over meanwhile, and the byte executes a second time,
    /// with the same key. What is left of the lease is the time for which either is impossible.
    ///
    /// In transactional mode there is nothing to ask: what isn't committed isn't executed.
    pub async fn begin(&self) -> Result<(), NotExecuted> {
        fault::point("before_send").await;
        if let Some(claim) = &self.claim {
            claim.confirm(self.id).await?;
        }
        fault::point("after_check").await;
        Ok(())
    }
}

impl Confirmed {
    async fn confirm(&self, id: RecordId) -> Result<(), NotExecuted> {
        let since_heartbeat = self.clock.elapsed().saturating_sub(self.at);
        if since_heartbeat < self.lease || fault::broken("send_after_lease") {
            return Ok(());
        }
        let asked = self.clock.elapsed();
        let read = tokio::time::timeout(self.lease, self.read_back(id)).await;
        // A pause can come during the reading as well; its answer is no fresher than the question.
        let fresh = self.clock.elapsed().saturating_sub(asked) < self.lease;
        match read {
            Ok(Ok(Some(found))) if fresh && self.stands(&found) => Ok(()),
            Ok(Ok(_)) if fresh => Err(NotExecuted::because("the claim lapsed before anything was sent")),
            Ok(_) | Err(_) => {
                Err(NotExecuted::because("the claim is older than the lease and the store did not confirm it again"))
            }
        }
    }

    /// This process is made to count as alive again first: a claim that is found valid after that stays in place for a lease.
    /// A lapsed one might be taken over at any moment, whatever this attempt's own policy says: by an operator's `failed`,
    /// or by a node that has another policy by now.
    async fn read_back(&self, id: RecordId) -> Result<Option<Found>, StoreError> {
        self.store.heartbeat(self.owner, self.lease).await?;
        self.store.read(id).await
    }

    fn stands(&self, found: &Found) -> bool {
        let record = &found.record;
        // Nothing expires here, so the clock needs no trust.
        record.token == self.token && standing(record, found.now, found.owner_alive, false) == Standing::Processing
    }
}
