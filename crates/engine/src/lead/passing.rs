//! Letting a call through without a claim, when the store can't be reached and the policy says so (D1).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::{Lead, Reply, answer};
use crate::flight::{Over, Phase};
use crate::{Ended, NotExecuted, Passed, Unguarded, spans};

impl<A: Send + 'static> Lead<A> {
    /// Ends a flight whose claim failed. Nothing was executed under it, and nothing will be: a claim that may have got
    /// through all the same is released (D2).
    ///
    /// Let through, the call keeps its flight until it is answered, so that no other call of this process runs beside it;
    /// those that wait are told to come back. A caller that is gone by now gets nothing executed: it will ask again.
    pub(super) async fn end_unclaimed(self, mut reply: Option<Reply<A>>) {
        let call = self.call.as_ref().filter(|call| call.transactions.is_none());
        let Some(pass) = call.and_then(|call| call.unguarded.clone()) else {
            return self.end(reply, Over::StoreUnavailable);
        };
        // A caller whose time is over before this is gone; one whose time ends after it stays for the answer.
        self.leading.flight.enter(Phase::Passing);
        if reply.as_ref().is_none_or(Reply::is_closed) {
            return self.end(reply, Over::StoreUnavailable);
        }
        tracing::warn!(operation = %self.leading.id, "let through without a claim: the store can't be reached");
        let span = spans::pass(&self.span, self.leading.id, &self.policy.route);
        let passed = self.pass(pass).instrument(span.clone()).await;
        spans::passed(&span, &passed);
        drop(span);
        match &passed {
            Passed::Answered(_) => {}
            Passed::NotExecuted(proof) => tracing::warn!(operation = %self.leading.id, %proof, "unguarded"),
            Passed::Ambiguous(why) => tracing::error!(operation = %self.leading.id, why, "unguarded: nobody can tell"),
        }
        answer(&mut reply, Some(Ended::Unguarded(passed)));
        self.leading.end(Over::InProgress);
    }

    async fn pass(&self, pass: Unguarded<A>) -> Passed<A> {
        if self.node.cut.is_cancelled() {
            return Passed::NotExecuted(NotExecuted::because("the node shuts down"));
        }
        let limit = self.policy.timing.upstream_timeout;
        let pass = AssertUnwindSafe(async move { Arc::clone(&pass)().await }).catch_unwind();
        tokio::select! {
            biased; // an answer that is there counts
            passed = timeout(limit, pass) => match passed {
                Ok(Ok(passed)) => passed,
                Ok(Err(_)) => Passed::Ambiguous("its handler panicked".to_owned()),
                Err(_) => Passed::Ambiguous("it took longer than upstream_timeout".to_owned()),
            },
            () = self.node.cut.cancelled() => Passed::Ambiguous("the node shut down while it ran".to_owned()),
        }
    }
}
