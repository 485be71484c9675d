//! Places where tests stop the process, and rules that tests break to see that they are caught. Compiled to nothing
//! without the feature `fault-points`, which no release has.
//!
//! `ONCEKEYTEST_FAULT=PLACE[@N]=ACTION` acts on the N-th arrival at a place (default 1) and on no other. The switches
//! aren't called `ONCEKEY_…`, so that they are no misspelt settings.
//!
//! | action | the process |
//! |---|---|
//! | `kill` | dies as by `kill -9` |
//! | `stop` | pauses as by SIGSTOP |
//! | `panic` | panics there |
//! | `hang` | goes on, but whoever arrived there doesn't |
//!
//! | place | what has just happened |
//! |---|---|
//! | `before_claim` | a leader is about to ask the store |
//! | `after_claim` | the claim is durable, or the transaction open that holds it (G3); the handler is next |
//! | `before_send` | the execution is about to look at the age of its claim (E10); in the gateway once before it connects and once more right before the first byte |
//! | `after_check` | that look was passed, and the first byte is next |
//! | `before_record` | the upstream has answered; in transactional mode nothing is committed |
//! | `commit_sent` | in transactional mode on PostgreSQL: record and COMMIT are handed to the connection, and nothing is acknowledged (G3) |
//! | `before_probe` | the upstream is about to be asked about an unknown outcome |
//! | `after_probe` | it has said what it knows, and nothing of that is recorded |
//! | `before_reply` | the outcome is durable |
//!
//! `ONCEKEYTEST_BREAK=RULE[,RULE…]` breaks rules:
//!
//! | rule broken | instead |
//! |---|---|
//! | `execute_lapsed` | what counts as unknown is claimed and executed again (E7) |
//! | `send_after_lease` | the age of a claim isn't looked at before the first byte (E10) |
//! | `answer_before_record` | the first answer doesn't wait for its recording (E2) |
//! | `tie_to_client` | an execution ends with its client's connection (E3) |
//! | `no_flights` | the calls of a process don't gather (W1) |
//! | `grant_every_claim` | a claim that the store refused counts as granted (E1) |
//! | `execute_unclaimed` | a claim that the store failed on counts as granted (D1) |
//! | `grant_lost_claims` | a claim whose acknowledgement was lost counts as granted (D2) |
//! | `another_token` | a claim whose acknowledgement was lost is asked for again with another token (D2) |
//! | `forget_outcomes` | an outcome that can't be recorded at once is given up (D3) |
//! | `endless_attempts` | under `retry`, `max_attempts` isn't looked at (E7) |
//! | `probe_early` | "there is no such operation" is believed at any time (E7) |
//! | `log_urls` | a probe that fails is logged with its URL (P2) |
//! | `keep_lost_claims` | a claim whose execution was lost isn't written off (E4) |
//! | `refused_is_ambiguous` | what an HTTP/2 upstream provably didn't execute counts as unknown (E6) |
//! | `cancel_is_proof` | a stream reset with CANCEL counts as not executed (E7) |
//! | `no_drain` | what runs isn't waited for at the end (D4) |
//! | `commit_errors` | in transactional mode an answer after which a retry runs again is committed (G3) |
//! | `unsettled_commits` | in transactional mode a commit that nobody can tell of counts as made (G3) |
//! | `keep_declined_rows` | in transactional mode an error that is recorded keeps its rows (G3) |
//! | `record_apart` | in transactional mode a handler's rows are committed first, and then the record (G3) |
//! | `trust_content_length` | the gateway doesn't see `Transfer-Encoding` (H1) |
//! | `leave_unread_body` | the gateway doesn't see `Content-Length`, and takes a body for the next request (H3) |
//! | `admit_anything` | the gateway takes what HTTP's grammar alone allows (H1) |

/// A named place; see the table above.
#[cfg(not(feature = "fault-points"))]
#[inline]
pub async fn point(_name: &str) {
    std::future::ready(()).await;
}

/// Whether a test asked for a rule to be broken; see the table above.
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
        let text = std::env::var("ONCEKEYTEST_FAULT").ok()?;
        let (place, action) = text.split_once('=').expect("ONCEKEYTEST_FAULT is PLACE[@N]=ACTION");
        let (place, arrival) = place.split_once('@').unwrap_or((place, "1"));
        let arrival = arrival.parse().expect("ONCEKEYTEST_FAULT counts arrivals from 1");
        Some(Fault { place: place.to_owned(), arrival, action: action.to_owned(), arrivals: AtomicU64::new(0) })
    });

    #[expect(clippy::disallowed_methods, reason = "switches of test builds; not settings")]
    static BROKEN: LazyLock<Vec<String>> = LazyLock::new(|| {
        let rules = std::env::var("ONCEKEYTEST_BREAK").unwrap_or_default();
        rules.split(',').map(str::to_owned).collect()
    });

    /// See the variant without the feature.
    ///
    /// # Panics
    /// When asked to, and when `ONCEKEYTEST_FAULT` asks for what it doesn't know.
    pub async fn point(name: &str) {
        let Some(fault) = FAULT.as_ref().filter(|fault| fault.place == name) else { return };
        if fault.arrivals.fetch_add(1, Ordering::SeqCst) + 1 != fault.arrival {
            return;
        }
        match fault.action.as_str() {
            "kill" => signal(rustix::process::Signal::KILL).await,
            "stop" => signal(rustix::process::Signal::STOP).await,
            "panic" => panic!("asked to panic at {name}"),
            "hang" => std::future::pending().await,
            other => panic!("ONCEKEYTEST_FAULT knows kill, stop, panic and hang, not {other}"),
        }
    }

    async fn signal(signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::getpid(), signal).expect("a process may signal itself");
        // A signal to oneself arrives before this returns on the calling thread, or on another one, which a loaded machine may
        // let wait for a while. A pause counts towards this sleep.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }

    /// See the variant without the feature.
    pub fn broken(rule: &str) -> bool {
        BROKEN.iter().any(|broken| broken == rule)
    }
}
