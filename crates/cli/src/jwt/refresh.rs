//! Keeping a key set fresh: read again now and then, and soon after a token needed a key that isn't there.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::fetch::Fetch;
use super::keys::KeySet;
use super::tokens::Tokens;

/// How often a set behind a URL is fetched, and how soon again when that failed.
const EVERY: (Duration, Duration) = (Duration::from_mins(5), Duration::from_secs(30));

/// How often a file is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// The least time between two readings, doubled up to the second value by each that brings nothing new: tokens that no key
/// verifies cost whoever publishes the keys next to nothing.
const GAP: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// What keeps the keys fresh; runs as a task, as long as anyone verifies tokens with them.
pub(crate) struct Refresh {
    tokens: Weak<Tokens>,
    wanted: Arc<Notify>,
    fetch: Fetch,
    /// The set in force, as it was written.
    text: Vec<u8>,
    gap: Duration,
}

/// What reading the set again came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Changed,
    Same,
    Failed,
}

impl Refresh {
    pub(super) fn new(tokens: &Arc<Tokens>, fetch: Fetch, text: Vec<u8>) -> Self {
        let (tokens, wanted) = (Arc::downgrade(tokens), Arc::clone(&tokens.wanted));
        Self { tokens, wanted, fetch, text, gap: GAP.0 }
    }

    /// Runs until it is dropped, or a reload has put other keys in place of these.
    pub(crate) async fn run(mut self) {
        let mut read = Read::Changed;
        while self.tokens.strong_count() > 0 {
            let begun = Instant::now();
            let every = match read {
                _ if self.fetch.is_file() => LOOK,
                Read::Failed => EVERY.1,
                Read::Changed | Read::Same => EVERY.0,
            };
            let asked = timeout_at(begun + every, self.wanted.notified()).await.is_ok();
            sleep_until(begun + self.gap.min(every)).await;
            read = self.read_again().await;
            self.gap = match read {
                Read::Changed => GAP.0,
                Read::Same | Read::Failed if asked => GAP.1.min(self.gap * 2),
                Read::Same | Read::Failed => self.gap,
            };
        }
    }

    /// The last good set stays until there is another.
    pub(super) async fn read_again(&mut self) -> Read {
        let text = match self.fetch.fetch().await {
            Ok(text) if text == self.text => return Read::Same,
            Ok(text) => text,
            Err(error) => return failed(&error),
        };
        match KeySet::parse(&text) {
            Ok(keys) => {
                if let Some(tokens) = self.tokens.upgrade() {
                    tokens.replace_keys(keys);
                }
                self.text = text;
                tracing::info!("the key set has changed");
                Read::Changed
            }
            Err(error) => failed(&error),
        }
    }
}

impl fmt::Debug for Refresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Refresh({} bytes)", self.text.len())
    }
}

fn failed(error: &str) -> Read {
    tracing::warn!("jwt.jwks: {error}; the keys that are known stay");
    Read::Failed
}
