//! Scopes from verified tokens (`jwt:CLAIM`, S1): what a token must be to be believed, and the keys that say so.
//!
//! The keys live in memory, so that a request never waits for whoever publishes them. Keeping them fresh is `refresh`'s work;
//! a set that can't be read, or holds no key that can be used, never replaces one that could.

mod fetch;
mod keys;
mod refresh;
#[cfg(test)]
mod tests;
mod tokens;
mod verifier;

use std::sync::Arc;
use std::time::Duration;

use oncekey_store::Clock;
use tokio::time::{Instant, sleep};

pub(crate) use fetch::Jwks;
pub(crate) use tokens::Tokens;
pub(crate) use verifier::Verifier;

use crate::exit::Failure;
use crate::tls::Finding;
use fetch::Fetch;
use keys::KeySet;
use refresh::Refresh;

/// What tokens must be, and where the keys are that they are verified with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JwtConfig {
    /// The key set.
    pub(crate) jwks: Jwks,
    /// What `iss` must be; `None`: anything.
    pub(crate) issuer: Option<String>,
    /// One of these must stand in `aud`; none: anything may.
    pub(crate) audience: Vec<String>,
    /// How far clocks may be apart, for `exp` and `nbf`.
    pub(crate) leeway: Duration,
}

impl JwtConfig {
    /// What is wrong with a key set in a file, found as a gateway finds it at start. Blocking. A URL is asked by nobody but a
    /// gateway.
    pub(crate) fn check_file(&self) -> Result<(), Finding> {
        let Jwks::File(path) = &self.jwks else { return Ok(()) };
        let finding = |absent, text| Finding { setting: "jwt.jwks", text: format!("{}: {text}", self.jwks), absent };
        let text = fetch::read(path).map_err(|error| finding(true, format!("it can't be read: {error}")))?;
        let keys = fetch::bounded(text).and_then(|text| KeySet::parse(&text));
        keys.map(drop).map_err(|text| finding(false, text))
    }
}

/// Between two tries to get the keys at start.
const PAUSE: Duration = Duration::from_millis(250);

/// Gets the keys, and what keeps them fresh. A set behind a URL is tried for until `patience` has passed, then it is exit 69;
/// a file that isn't there or isn't right is exit 64.
async fn start(
    config: &JwtConfig,
    clock: Arc<dyn Clock>,
    patience: Duration,
) -> Result<(Arc<Tokens>, Refresh), Failure> {
    let fetch = Fetch::new(&config.jwks).map_err(Failure::failed)?;
    let deadline = Instant::now() + patience;
    let text = loop {
        let found = fetch.fetch().await.and_then(|text| KeySet::parse(&text).map(|keys| (text, keys)));
        match found {
            Ok(found) => break found,
            Err(error) => {
                let told = format!("jwt.jwks: {}: {error}", config.jwks);
                if matches!(config.jwks, Jwks::File(_)) {
                    return Err(Failure::usage(told));
                }
                if Instant::now() >= deadline {
                    return Err(Failure::unavailable(told));
                }
                tracing::warn!("{told}; trying again");
            }
        }
        sleep(PAUSE).await;
    };
    let (text, keys) = text;
    let tokens = Arc::new(Tokens::new(config, keys, clock));
    let refresh = Refresh::new(&tokens, fetch, text);
    Ok((tokens, refresh))
}
