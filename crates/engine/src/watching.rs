//! What is watched of a node and its store all the time: gauges, there from the start.

use std::time::Duration;

use metrics::{Gauge, gauge};
use oncekey_core::State;
use oncekey_store::{Gauges, Store};
use tokio::time::{sleep, timeout};

use crate::recorder::Recorder;

/// How often the store is asked.
const EVERY: Duration = Duration::from_secs(10);

/// How long the store may take: a look may have to wait behind a long sweep.
const PATIENCE: Duration = Duration::from_mins(1);

/// The gauges that a node keeps up to date by asking its store.
pub(crate) struct Watching {
    records: [(State, Gauge); 4],
    bytes: Gauge,
    oldest_processing: Gauge,
    sweep_lag: Gauge,
}

impl Watching {
    pub(crate) fn new() -> Self {
        // Nothing can be accepted to be executed later, so nothing waits for that.
        gauge!("oncekey_async_backlog").set(0.0);
        Self {
            records: State::ALL.map(|state| (state, gauge!("oncekey_records", "state" => state.name()))),
            bytes: gauge!("oncekey_store_bytes"),
            oldest_processing: gauge!("oncekey_processing_oldest_seconds"),
            sweep_lag: gauge!("oncekey_sweep_lag_seconds"),
        }
    }

    /// Asks the store again and again. While it doesn't answer, what it said last stays.
    pub(crate) async fn keep_up_to_date(&self, store: &dyn Store, recorder: &Recorder) {
        loop {
            let seen = match timeout(PATIENCE, store.gauges()).await {
                Ok(Ok(gauges)) => {
                    self.publish(&gauges);
                    gauges.oldest_processing
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the store's figures could not be read");
                    None
                }
                Err(_) => {
                    tracing::debug!("the store took too long for its figures");
                    None
                }
            };
            // Of its own claims a node knows even where the store only looks at a part of them, or is away.
            let oldest = seen.max(recorder.oldest_claim()).unwrap_or_default();
            self.oldest_processing.set(oldest.as_secs_f64());
            sleep(EVERY).await;
        }
    }

    fn publish(&self, gauges: &Gauges) {
        for (state, gauge) in &self.records {
            gauge.set(figure(gauges.stats.records.get(state.name()).copied().unwrap_or(0)));
        }
        self.bytes.set(figure(gauges.stats.bytes));
        self.sweep_lag.set(gauges.oldest_expired.unwrap_or_default().as_secs_f64());
    }
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers; exact up to 2^53")]
fn figure(count: u64) -> f64 {
    count as f64
}
