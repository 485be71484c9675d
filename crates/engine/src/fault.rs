//! Places where tests stop the process, and rules that tests break to see that they are caught. Compiled to nothing
//! without the feature `fault-points`, which no release has.

/// A named place. With `ONCEKEY_FAULT=NAME=kill` the process dies there as by `kill -9`; `=stop` pauses it as SIGSTOP
/// does; `=panic` panics. `NAME@N` acts on the N-th arrival only (default 1).
#[cfg(not(feature = "fault-points"))]
#[inline]
pub async fn point(_name: &str) {
    std::future::ready(()).await;
}

/// Whether a test asked for a rule to be broken: `ONCEKEY_BREAK=RULE`.
#[cfg(not(feature = "fault-points"))]
#[inline]
pub const fn broken(_rule: &str) -> bool {
    false
}

#[cfg(feature = "fault-points")]
pub use switched::{broken, point};

#[cfg(feature = "fault-points")]
mod switched {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Fault {
        place: String,
        arrival: u64,
        action: String,
        arrivals: AtomicU64,
    }

    #[expect(clippy::disallowed_methods, reason = "switches of test builds; not settings")]
    static FAULT: LazyLock<Option<Fault>> = LazyLock::new(|| {
        let text = std::env::var("ONCEKEY_FAULT").ok()?;
        let (place, action) = text.split_once('=').expect("ONCEKEY_FAULT is PLACE[@N]=ACTION");
        let (place, arrival) = place.split_once('@').unwrap_or((place, "1"));
        let arrival = arrival.parse().expect("ONCEKEY_FAULT counts arrivals from 1");
        Some(Fault { place: place.to_owned(), arrival, action: action.to_owned(), arrivals: AtomicU64::new(0) })
    });

    #[expect(clippy::disallowed_methods, reason = "switches of test builds; not settings")]
    static BROKEN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("ONCEKEY_BREAK").ok());

    /// See the variant without the feature.
    ///
    /// # Panics
    /// When asked to, and when `ONCEKEY_FAULT` asks for what it doesn't know.
    pub async fn point(name: &str) {
        let Some(fault) = FAULT.as_ref().filter(|fault| fault.place == name) else { return };
        if fault.arrivals.fetch_add(1, Ordering::SeqCst) + 1 != fault.arrival {
            return;
        }
        let signal = match fault.action.as_str() {
            "kill" => rustix::process::Signal::KILL,
            "stop" => rustix::process::Signal::STOP,
            "panic" => panic!("asked to panic at {name}"),
            other => panic!("ONCEKEY_FAULT knows kill, stop and panic, not {other}"),
        };
        rustix::process::kill_process(rustix::process::getpid(), signal).expect("a process may signal itself");
        // A signal to oneself arrives before this returns on the calling thread, or shortly after on another one.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }

    /// See the variant without the feature.
    pub fn broken(rule: &str) -> bool {
        BROKEN.as_deref() == Some(rule)
    }
}
