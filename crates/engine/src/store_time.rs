//! Whether the store's clock can be trusted to expire records (E9).

use std::time::Duration;

use oncekey_core::Timestamp;
use parking_lot::Mutex;

/// How far the store's clock may run ahead of this node's elapsed time before nothing counts as expired.
const TOLERANCE: Duration = Duration::from_mins(1);

/// Compares the store's clock with this node's elapsed time. A store clock that jumps ahead would expire records early,
/// and an early expiry is a second execution; so while it is ahead, nothing expires. A clock that is set back moves the
/// base line with it: that only makes records live longer.
#[derive(Debug, Default)]
pub(crate) struct StoreTime(Mutex<Readings>);

#[derive(Debug, Default)]
struct Readings {
    /// The smallest difference ever seen between the store's clock and elapsed time, in microseconds.
    base: Option<i64>,
    ahead: bool,
}

impl StoreTime {
    /// Whether the last reading was in step.
    pub(crate) fn is_trusted(&self) -> bool {
        !self.0.lock().ahead
    }

    /// Whether a reading is in step, without taking note of it.
    pub(crate) fn believes(&self, now: Timestamp, elapsed: Duration) -> bool {
        let offset = offset(now, elapsed);
        self.0.lock().base.is_none_or(|base| !is_ahead(offset, base))
    }

    /// Takes note of a reading and says whether expiry can be trusted.
    pub(crate) fn observe(&self, now: Timestamp, elapsed: Duration) -> bool {
        let offset = offset(now, elapsed);
        let mut readings = self.0.lock();
        let base = readings.base.map_or(offset, |base| base.min(offset));
        readings.base = Some(base);
        let ahead = is_ahead(offset, base);
        if ahead != readings.ahead {
            readings.ahead = ahead;
            metrics::gauge!("oncekey_store_clock_ahead").set(f64::from(u8::from(ahead)));
            if ahead {
                tracing::error!("the store's clock runs ahead by over a minute: nothing expires and nothing is swept");
            } else {
                tracing::info!("the store's clock is back in step: records expire again");
            }
        }
        !ahead
    }
}

/// The difference between the store's clock and elapsed time, in microseconds.
fn offset(now: Timestamp, elapsed: Duration) -> i64 {
    now.as_micros().saturating_sub(i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX))
}

fn is_ahead(offset: i64, base: i64) -> bool {
    u128::try_from(offset.saturating_sub(base)).unwrap_or(0) > TOLERANCE.as_micros()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn at(store: u64, elapsed: u64) -> (Timestamp, Duration) {
        (START.after(Duration::from_secs(store)), Duration::from_secs(elapsed))
    }

    #[test]
    fn clocks_in_step_are_trusted() {
        let time = StoreTime::default();
        for (store, elapsed) in [(0, 0), (10, 10), (10_000, 9_950)] {
            let (now, elapsed) = at(store, elapsed);
            assert!(time.observe(now, elapsed));
        }
    }

    #[test]
    fn a_jump_ahead_is_not_trusted_until_it_is_undone() {
        let time = StoreTime::default();
        let readings = [((0, 0), true), ((3600, 1), false), ((3700, 101), false), ((110, 110), true)];
        for ((store, elapsed), trusted) in readings {
            let (now, elapsed) = at(store, elapsed);
            assert_eq!(time.believes(now, elapsed), trusted, "store {store}s");
            assert_eq!(time.observe(now, elapsed), trusted, "store {store}s");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_moves_the_base_line() {
        let time = StoreTime::default();
        let readings = [((7200, 0), true), ((10, 10), true), ((7220, 20), false)];
        for ((store, elapsed), trusted) in readings {
            let (now, elapsed) = at(store, elapsed);
            assert_eq!(time.observe(now, elapsed), trusted, "store {store}s");
        }
    }
}
