//! What an execution knows about itself, and the check right before its first byte (E10).

use std::sync::Arc;

use oncekey_core::RecordId;
use oncekey_core::policy::Policy;

/// Proof that nothing of the operation was executed (E6). An execution that fails with this, anywhere in its error's chain
/// of sources, leaves the record `failed`; any other error leaves it ambiguous.
#[derive(Debug, thiserror::Error)]
#[error("nothing was executed: {reason}")]
pub struct NotExecuted {
    reason: String,
}

impl NotExecuted {
    /// States why nothing was executed: a sentence without credentials, bodies or keys, since it is logged (P2).
    pub fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// One execution of a record. The HTTP layer puts it into the extensions of the request it passes on.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The operation id.
    pub id: RecordId,
    /// 1 for the first execution, then 2, …
    pub number: u32,
    /// The route's policy.
    pub policy: Arc<Policy>,
}

impl Attempt {
    /// Asks, right before the first byte leaves, whether this attempt may still execute (E10). After `Ok` the operation
    /// counts as sent: only an answer, or proof to the contrary, ends it as anything but unknown.
    pub async fn begin(&self) -> Result<(), NotExecuted> {
        std::future::ready(Ok(())).await
    }
}
