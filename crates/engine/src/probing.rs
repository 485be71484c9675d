//! What a leader makes of an unknown outcome by asking the upstream (E7, `probe`).
//!
//! The upstream is asked first, without a claim, and what it says is then written by compare-and-set. A claim before the
//! question would take the record from an owner that may still know better, and would set the time of sending anew with
//! each question. Asked first, the answers are written so:
//!
//! - "it took effect" by [`Store::resolve`](oncekey_store::Store::resolve), as an operator's verdict is: it only moves a
//!   record that is, or counts as, unknown, and installs a new token, so that a late outcome, or another node's answer, is
//!   refused from then on, and one that came before stands.
//! - "it isn't there" by a claim that replaces just the record that was seen: by its token, so that of two nodes one
//!   executes, and by its state, so that an outcome that came late meanwhile stands. The owner of the earlier attempt is
//!   refused from then on; before it sends anything it checks its claim (E10).

use std::sync::Arc;

use oncekey_core::{RecordedResponse, State, Token};
use oncekey_store::{Replaces, Resolution, Resolved, StoreError};
use tokio::time::timeout;

use crate::call::Probed;
use crate::flight::Over;
use crate::lead::Lead;
use crate::{fault, random};

/// What came of asking.
pub(crate) enum Asked {
    /// The call is answered.
    Over(Over),
    /// Nothing was executed: the record may be taken over.
    Absent,
    /// The record has changed meanwhile: the store has more to say.
    Changed,
}

impl<A: Send + 'static> Lead<A> {
    /// Asks the upstream about the operation, and records its outcome if it took effect. `may_execute` is whether "it isn't
    /// there" may be believed.
    pub(crate) async fn ask_upstream(&self, may_execute: bool) -> Asked {
        let id = self.leading.id;
        let unknown = Asked::Over(Over::Unknown { settles: true });
        let Some(probe) = self.call().probe.clone() else {
            tracing::warn!(operation = %id, "the route asks about unknown outcomes and has no probe");
            return Asked::Over(Over::Unknown { settles: false });
        };
        fault::point("before_probe").await;
        let asking = probe.ask(self.call().identity.clone());
        let Some(probed) = self.node.cut.run_until_cancelled(asking).await else { return unknown };
        fault::point("after_probe").await;
        match probed {
            Probed::Completed(response) => self.record_probed(response).await,
            Probed::Absent if may_execute || fault::broken("probe_early") => {
                tracing::info!(operation = %id, "the upstream knows no such operation: it is executed again");
                Asked::Absent
            }
            Probed::Absent => {
                tracing::info!(operation = %id, "the upstream knows no such operation, which doesn't count yet, or any more");
                unknown
            }
            Probed::Unclear(reason) => {
                tracing::warn!(operation = %id, reason, "the upstream was asked about an unknown outcome and can't tell");
                unknown
            }
        }
    }

    /// Records what the upstream said. Asked again after an ambiguous failure with the same token, the store knows its
    /// earlier self.
    async fn record_probed(&self, response: Arc<RecordedResponse>) -> Asked {
        let id = self.leading.id;
        let token = Token::from_bytes(random::bits());
        for _ in 0..2 {
            let verdict = Resolution::Completed { response: Arc::clone(&response), token };
            match timeout(self.node.settings.store_timeout, self.node.store.resolve(id, verdict)).await {
                Ok(Ok(Resolved::Done)) => {
                    tracing::info!(operation = %id, "the upstream knows the outcome, which is recorded");
                    fault::point("before_reply").await;
                    return Asked::Over(Over::Recorded { response, waited: false, repeatable: false });
                }
                Ok(Ok(Resolved::NotUnknown(_))) => return Asked::Changed,
                // It is gone, or has expired by a clock that this node may not trust: asking again would tell no more.
                Ok(Ok(Resolved::NotFound)) => return Asked::Over(Over::Unknown { settles: true }),
                Ok(Err(StoreError::MayHaveBeenApplied(error))) => {
                    tracing::warn!(operation = %id, %error, "it isn't known whether a probed outcome is recorded");
                }
                Ok(Err(StoreError::Corrupt(error))) => {
                    tracing::error!(operation = %id, %error, "a record can't be read");
                    return Asked::Over(Over::Unreadable);
                }
                Ok(Err(error)) => {
                    tracing::warn!(operation = %id, %error, "a probed outcome can't be recorded");
                    break;
                }
                Err(_) => break,
            }
        }
        // Nothing is lost: the next retry asks again.
        Asked::Over(Over::StoreUnavailable)
    }
}

/// Whether a claim that replaces this record takes it over (E4): its last attempt may have taken effect.
pub(crate) fn is_takeover(seen: &Replaces) -> bool {
    !seen.expired && matches!(seen.state, State::Processing | State::Unknown)
}
