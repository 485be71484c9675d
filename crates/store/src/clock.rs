//! Clocks: the only place that reads one.

use std::time::Duration;

use oncekey_core::Timestamp;
use parking_lot::Mutex;

/// A source of time. A trait because tests turn it: [`SystemClock`] reads the machine, [`ManualClock`] is turned by hand.
pub trait Clock: Send + Sync + 'static {
    /// Wall-clock time; an embedded store uses it as the store's clock.
    fn now(&self) -> Timestamp;

    /// Time since an arbitrary origin. Never set back, and it runs on while the machine is suspended (E10).
    fn elapsed(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one home of wall-clock time")]
    fn now(&self) -> Timestamp {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
    }

    fn elapsed(&self) -> Duration {
        // CLOCK_BOOTTIME rather than `Instant`: the latter stops in suspend on Linux, and a laptop lid must not
        // stretch a lease.
        #[cfg(target_os = "linux")]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(clock);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
}

/// A clock that stands still until it is turned. Both readings advance together; the wall clock can also jump alone.
#[derive(Debug)]
pub struct ManualClock(Mutex<(Timestamp, Duration)>);

impl ManualClock {
    /// A clock that shows `now` and no elapsed time.
    pub fn at(now: Timestamp) -> Self {
        Self(Mutex::new((now, Duration::ZERO)))
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let mut clock = self.0.lock();
        clock.0 = clock.0.after(by);
        clock.1 += by;
    }

    /// Sets the wall clock forward without time having passed: what a wrong time server does (E9).
    pub fn jump(&self, by: Duration) {
        let mut clock = self.0.lock();
        clock.0 = clock.0.after(by);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.0.lock().0
    }

    fn elapsed(&self) -> Duration {
        self.0.lock().1
    }
}
