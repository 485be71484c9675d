//! How long a call has spent on one thing: waiting, or executing.

use std::sync::Arc;
use std::time::Duration;

use metrics::Histogram;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Adds up the time that one call spends on one thing, and records each stretch of it.
#[derive(Debug)]
pub struct Stopwatch {
    histogram: Histogram,
    spent: Mutex<Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    before: Duration,
    running_since: Option<Instant>,
}

/// A stretch of time, ended by dropping it.
#[must_use = "dropped, it has ended"]
#[derive(Debug)]
pub struct Running(Arc<Stopwatch>);

impl Default for Stopwatch {
    /// One that records nothing.
    fn default() -> Self {
        Self::new(Histogram::noop())
    }
}

impl Stopwatch {
    /// One that records each stretch, in seconds, in a histogram.
    pub fn new(histogram: Histogram) -> Self {
        Self { histogram, spent: Mutex::default() }
    }

    /// Begins a stretch. One at a time: a second one that overlaps begins the first anew.
    pub fn start(self: &Arc<Self>) -> Running {
        self.spent.lock().running_since = Some(Instant::now());
        Running(Arc::clone(self))
    }

    /// Does `work`, and takes its time from its first poll to its end, or until it is dropped.
    pub async fn time<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        let _running = self.start();
        work.await
    }

    /// All stretches up to now, one that still runs included.
    pub fn spent(&self) -> Duration {
        let spent = self.spent.lock();
        spent.before + spent.running_since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut spent = self.0.spent.lock();
        if let Some(since) = spent.running_since.take() {
            let stretch = since.elapsed();
            spent.before += stretch;
            self.0.histogram.record(stretch);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn stretches_add_up_and_what_runs_counts_already() {
        let watch = Arc::new(Stopwatch::default());
        let first = watch.start();
        advance(2 * SECOND).await;
        drop(first);
        advance(SECOND).await;
        assert_eq!(watch.spent(), 2 * SECOND);
        let _second = watch.start();
        advance(3 * SECOND).await;
        assert_eq!(watch.spent(), 5 * SECOND);
    }
}
