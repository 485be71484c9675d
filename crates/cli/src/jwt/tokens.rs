//! Believing a token, or not: its signature, who made it, for whom, and when.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::AUTHORIZATION;
use http::request;
use jsonwebtoken::{Header, Validation};
use oncekey_store::Clock;
use oncekey_tower::{InvalidScope, ScopeReader};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use super::JwtConfig;
use super::keys::KeySet;

type Claims = Map<String, Value>;

/// What tokens are verified with.
pub(crate) struct Tokens {
    keys: ArcSwap<KeySet>,
    /// Told when a token names, or needs, a key that isn't there.
    pub(super) wanted: Arc<Notify>,
    clock: Arc<dyn Clock>,
    issuer: Option<String>,
    audience: Vec<String>,
    leeway: Duration,
}

/// Why a token isn't believed: the end of a sentence that its client reads. Holds nothing of the token (P2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("it is no signed JSON Web Token of an algorithm that is taken here")]
    Malformed,
    #[error("no key that is known here verifies it")]
    Signature,
    #[error("it has no `exp`, or one that is no time")]
    NoExpiry,
    #[error("it has expired")]
    Expired,
    #[error("it isn't valid yet")]
    TooEarly,
    #[error("it is of another issuer")]
    Issuer,
    #[error("it is for another audience")]
    Audience,
}

impl Tokens {
    pub(super) fn new(config: &JwtConfig, keys: KeySet, clock: Arc<dyn Clock>) -> Self {
        Self {
            keys: ArcSwap::from_pointee(keys),
            wanted: Arc::default(),
            clock,
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            leeway: config.leeway,
        }
    }

    pub(super) fn replace_keys(&self, keys: KeySet) {
        self.keys.store(Arc::new(keys));
    }

    /// Has the key set read again soon.
    pub(super) fn refresh(&self) {
        self.wanted.notify_one();
    }

    /// Reads the scope from a claim of the request's bearer token. Without a token, or with one that has no such claim, there
    /// is no value. A token that isn't believed ends the search: a weaker source in its place would make a retry with an
    /// expired token another operation.
    pub(crate) fn reader(self: &Arc<Self>, source: &str, claim: &str) -> ScopeReader {
        let (tokens, claim) = (Arc::clone(self), claim.to_owned());
        ScopeReader::new(source, move |head| tokens.read(head, &claim))
    }

    pub(super) fn read(&self, head: &request::Parts, claim: &str) -> Result<Option<String>, InvalidScope> {
        let Some(token) = bearer(head)? else { return Ok(None) };
        let refused = |why: Refused| {
            InvalidScope::credential(format!("Send a token that can be verified, and keep the key: {why}."))
        };
        scope(&self.verify(token).map_err(refused)?, claim)
    }

    /// The claims of a token that is to be believed.
    pub(super) fn verify(&self, token: &[u8]) -> Result<Claims, Refused> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| Refused::Malformed)?;
        let claims = self.signed(token, &header)?;
        self.check_times(&claims)?;
        if self.issuer.as_deref().is_some_and(|issuer| claims.get("iss").and_then(Value::as_str) != Some(issuer)) {
            return Err(Refused::Issuer);
        }
        if !self.audience.is_empty() && !self.is_audience(claims.get("aud")) {
            return Err(Refused::Audience);
        }
        Ok(claims)
    }

    fn signed(&self, token: &[u8], header: &Header) -> Result<Claims, Refused> {
        let keys = self.keys.load();
        let mut validation = Validation::new(header.alg);
        // What the claims say is judged here, by a clock that can be turned.
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_aud = false;
        let mut candidates = keys.for_token(header.kid.as_deref(), header.alg);
        if let Some(token) = candidates.find_map(|key| jsonwebtoken::decode::<Claims>(token, key, &validation).ok()) {
            return Ok(token.claims);
        }
        self.wanted.notify_one();
        Err(Refused::Signature)
    }

    fn check_times(&self, claims: &Claims) -> Result<(), Refused> {
        let now = Duration::from_micros(u64::try_from(self.clock.now().as_micros()).unwrap_or(0)).as_secs_f64();
        let leeway = self.leeway.as_secs_f64();
        let expires = claims.get("exp").and_then(Value::as_f64).ok_or(Refused::NoExpiry)?;
        if now >= expires + leeway {
            return Err(Refused::Expired);
        }
        match claims.get("nbf").map(Value::as_f64) {
            None => Ok(()),
            Some(Some(from)) if now + leeway >= from => Ok(()),
            Some(_) => Err(Refused::TooEarly),
        }
    }

    fn is_audience(&self, stated: Option<&Value>) -> bool {
        let is_one = |value: &Value| value.as_str().is_some_and(|name| self.audience.iter().any(|one| one == name));
        match stated {
            Some(Value::Array(names)) => names.iter().any(is_one),
            Some(name) => is_one(name),
            None => false,
        }
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({:?})", self.keys.load())
    }
}

/// The token of `Authorization: Bearer TOKEN`; `None` for another scheme, or none.
fn bearer(head: &request::Parts) -> Result<Option<&[u8]>, InvalidScope> {
    let mut lines = head.headers.get_all(AUTHORIZATION).iter();
    let value = match (lines.next(), lines.next()) {
        (_, Some(_)) => return Err(InvalidScope::because("Send one `authorization` field; this request has several.")),
        (None, None) => return Ok(None),
        (Some(value), None) => value.as_bytes().trim_ascii(),
    };
    let (scheme, token) = value.split_at(value.iter().position(|byte| *byte == b' ').unwrap_or(value.len()));
    let token = token.trim_ascii();
    Ok(Some(token).filter(|token| scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()))
}

fn scope(claims: &Claims, name: &str) -> Result<Option<String>, InvalidScope> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(Some(number.to_string())),
        Some(_) => {
            Err(InvalidScope::because(format!("Send a token whose claim `{name}` is a text or a whole number.")))
        }
    }
}
