//! Requests that go on while something breaks, and their retries once it has healed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use oncekey_testkit::{Answer, PATIENCE};

use crate::faults::history::{History, Tally};
use crate::faults::site::{Gateway, Site};

/// Clients that each ask for one key after the other, each key at every gateway at the same time.
const CLIENTS: usize = 16;

/// Between two tries where the gateway says to come back.
const COME_BACK: Duration = Duration::from_millis(20);

/// A load on the gateways of a site.
#[derive(Default)]
pub(super) struct Load {
    /// What its clients saw, and whoever else asks.
    pub(super) history: History,
    over: AtomicBool,
}

impl Load {
    /// Asks for new keys until `meanwhile` is over; what that gave, and the keys. `fronts` are where requests go: also where a
    /// gateway is killed and started again.
    pub(super) async fn during<T>(
        &self,
        fronts: &[SocketAddr],
        meanwhile: impl Future<Output = T>,
    ) -> (T, Vec<String>) {
        let clients = (0..CLIENTS).map(|client| async move {
            let mut keys = Vec::new();
            while !self.is_over() {
                let key = format!("{client}-{}", keys.len());
                self.ask(fronts, &key).await;
                keys.push(key);
            }
            keys
        });
        let meanwhile = async {
            let value = meanwhile.await;
            self.over.store(true, Ordering::Release);
            value
        };
        let (keys, value) = tokio::join!(join_all(clients), meanwhile);
        (value, keys.into_iter().flatten().collect())
    }

    /// Asks all gateways at the same time, and again until one of them has a final answer or the time is over.
    async fn ask(&self, fronts: &[SocketAddr], key: &str) {
        // Held back a little, so that whatever breaks finds requests at every step.
        let script = &[("x-test-delay-ms", "5")];
        loop {
            let answers = join_all(fronts.iter().map(|front| self.history.send(*front, key, script))).await;
            if self.is_over() || answers.iter().any(|answer| is_final(answer.as_ref())) {
                return;
            }
            tokio::time::sleep(COME_BACK).await;
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Asks every gateway for each key until its answer is final.
    pub(super) async fn retry(&self, gateways: &[&Gateway], keys: &[String]) -> Result<(), String> {
        for part in keys.chunks(CLIENTS) {
            let asking = part.iter().map(|key| async move {
                for gateway in gateways {
                    let asking = async {
                        while !is_final(self.history.send(gateway.front, key, &[]).await.as_ref()) {
                            tokio::time::sleep(COME_BACK).await;
                        }
                    };
                    tokio::time::timeout(PATIENCE, asking).await.map_err(|_| format!("{key}: no final answer"))?;
                }
                Ok(())
            });
            join_all(asking).await.into_iter().collect::<Result<(), String>>()?;
        }
        Ok(())
    }

    /// The verdict.
    pub(super) fn check(&self, site: &Site) -> Result<Tally, String> {
        self.history.check(&site.upstream, &site.records())
    }
}

/// Whether asking again would be answered the same. What proves that nothing was executed isn't final: it invites a retry.
fn is_final(answer: Option<&Answer>) -> bool {
    answer.is_some_and(|answer| matches!(answer.problem(), None | Some("outcome-unknown")))
}
