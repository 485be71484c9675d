//! Waiting for a record that another node executes (W1).

use std::time::Duration;

use oncekey_store::StoreError;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument as _;

use super::{Judged, Lead, Reply};
use crate::executing::answer;
use crate::flight::Over;
use crate::poller::Look;
use crate::{Ended, Stopwatch, spans};

/// How long one look at another node's record may take before the leader checks on its waiters again.
const LOOK: Duration = Duration::from_millis(500);

/// Between two looks when the first got no answer.
const PAUSE: Duration = Duration::from_millis(100);

impl<A: Send + 'static> Lead<A> {
    /// Waits for a record that another node executes. `None`: this leader may claim it, for someone who still waits.
    pub(super) async fn outlast(&mut self, reply: &mut Option<Reply<A>>) -> Option<Over> {
        let span = spans::wait(&self.span, self.leading.id);
        let over = self.wait_elsewhere(reply).instrument(span.clone()).await;
        spans::outlasted(&span, over.as_ref());
        drop(span);
        if over.is_some() {
            return over;
        }
        if reply.as_ref().is_none_or(Reply::is_closed) {
            *reply = self.heir();
        }
        reply.is_none().then_some(Over::InProgress)
    }

    /// Waits for a record that another node executes, as long as anyone waits here. `None`: it has ended in a way after
    /// which this leader may claim it.
    async fn wait_elsewhere(&self, reply: &mut Option<Reply<A>>) -> Option<Over> {
        let until = self.arrived + self.policy.timing.wait;
        let mut waits = self.waited.as_ref().map(Stopwatch::start);
        loop {
            let asked = self.node.clock.elapsed();
            let look = timeout(LOOK, self.node.poller.look(self.leading.id)).await.unwrap_or(Look::NoAnswer);
            match look {
                Look::NoAnswer => sleep(PAUSE).await,
                Look::Gone => return None,
                Look::Found(found) => match self.judge(&found, asked, true) {
                    Judged::Elsewhere => {}
                    _ => return self.ended_elsewhere().await,
                },
            }
            // The leader's own caller is a duplicate here, and waits no longer than any other.
            if reply.as_ref().is_some_and(|reply| reply.is_closed() || Instant::now() >= until) {
                answer(reply, Some(Ended::InProgress));
                drop(waits.take());
            }
            if self.node.cut.is_cancelled() || reply.is_none() && !self.leading.flight.has_waiters() {
                return Some(Over::InProgress);
            }
        }
    }

    /// Reads the record that has ended, with its response.
    async fn ended_elsewhere(&self) -> Option<Over> {
        let asked = self.node.clock.elapsed();
        let read = timeout(self.node.settings.store_timeout, self.node.store.read(self.leading.id)).await;
        match read {
            Ok(Ok(Some(found))) => match self.judge(&found, asked, true) {
                Judged::Over(over) => Some(over),
                Judged::Mismatch { recipe_differs: false } => Some(Over::Mismatch),
                Judged::Mismatch { recipe_differs: true } => Some(Over::InProgress),
                Judged::Replace(_) | Judged::Ask { .. } | Judged::Elsewhere => None,
            },
            Ok(Ok(None)) => None,
            Ok(Err(StoreError::Corrupt(_))) => Some(Over::Unreadable),
            Ok(Err(_)) | Err(_) => Some(Over::StoreUnavailable),
        }
    }
}
