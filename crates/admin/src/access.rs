//! Who may ask the admin listener: the token, or a loopback listener that no web page can reach.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN, WWW_AUTHENTICATE};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::answer::Refused;
use crate::dashboard;
use crate::options::Admin;

/// The admin token, kept as its SHA-256: that makes all comparisons the same length, and leaves no credential in memory.
#[derive(Clone)]
pub struct AdminToken([u8; 32]);

/// An empty token would let everyone in who sends an empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the admin token is empty")]
pub struct EmptyToken;

impl AdminToken {
    /// The token that clients must present; white space around it (a file's last newline) is no part of it.
    pub fn new(secret: &str) -> Result<Self, EmptyToken> {
        match secret.trim() {
            "" => Err(EmptyToken),
            secret => Ok(Self(Sha256::digest(secret).into())),
        }
    }

    /// Takes the same time for every wrong token, whatever its length.
    fn is(&self, presented: &[u8]) -> bool {
        let presented: [u8; 32] = Sha256::digest(presented).into();
        self.0.ct_eq(&presented).into()
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken")
    }
}

/// The tokens of the two roles. Without any, a loopback listener asks for none.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    /// Of those who may look and change.
    pub act: Option<AdminToken>,
    /// Of those who may only look. Alone, it makes a listener on which nobody may change anything.
    pub read: Option<AdminToken>,
}

/// One token for both roles would let everyone act who should only look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the admin tokens for looking and for acting are the same")]
pub struct SameTokens;

/// Who asks: put into every request that got through, and noted with what it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) role: Role,
    /// Where the connection came from, which behind a proxy is the proxy.
    pub(crate) from: Option<IpAddr>,
}

/// What a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Look only.
    Read,
    /// Look and change, by the token.
    Act,
    /// Look and change, being on this machine.
    Local,
}

impl Role {
    /// As it stands in the trail.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read_token",
            Self::Act => "token",
            Self::Local => "local",
        }
    }
}

/// What the listener serves, and to whom.
#[derive(Clone, Debug)]
pub enum Access {
    /// Everything, to whoever presents a token in `Authorization: Bearer`: changes by that of the acting role only.
    Tokens(Tokens),
    /// Everything, to local programs. A web page is kept out by its `Host` (it was led here by DNS), its `Origin`, or the
    /// `Content-Type` that it can't send without asking first.
    Loopback,
    /// Health and metrics only: the address is reachable from elsewhere and there is no token.
    HealthOnly,
}

impl Access {
    /// What an admin listener may serve.
    pub fn new(tokens: Tokens, loopback: bool) -> Result<Self, SameTokens> {
        match (&tokens.act, &tokens.read) {
            (None, None) => Ok(if loopback { Self::Loopback } else { Self::HealthOnly }),
            (Some(act), Some(read)) if act.0 == read.0 => Err(SameTokens),
            _ => Ok(Self::Tokens(tokens)),
        }
    }

    /// The role in which a request may go on; `None` where it doesn't matter.
    fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<Option<Role>, Refused> {
        match (self, Area::of(path)) {
            (_, Area::Health) | (Self::Tokens(_) | Self::HealthOnly, Area::Metrics) | (Self::Tokens(_), Area::Page) => {
                Ok(None)
            }
            (Self::HealthOnly, Area::Page | Area::Rest) => Err(Refused::new(
                StatusCode::FORBIDDEN,
                "Without a token this address serves /healthz, /readyz and /metrics only; set admin.token \
                 (ONCEKEY_ADMIN_TOKEN), or let admin.listen be a loopback address.",
            )),
            (Self::Tokens(tokens), Area::Rest) => check_tokens(tokens, method, headers).map(Some),
            (Self::Loopback, Area::Metrics | Area::Page | Area::Rest) => {
                check_local(method, headers).map(|()| Some(Role::Local))
            }
        }
    }
}

/// The parts of the listener that differ in who may see them.
enum Area {
    /// Tells nothing, so it may be asked by anyone and under any name: probes often send none.
    Health,
    Metrics,
    /// The dashboard's files: the same for everyone, and without data.
    Page,
    Rest,
}

impl Area {
    fn of(path: &str) -> Self {
        match path {
            "/healthz" | "/readyz" => Self::Health,
            "/metrics" => Self::Metrics,
            path if dashboard::serves(path) => Self::Page,
            _ => Self::Rest,
        }
    }
}

/// Where a connection came from; the accept loop puts it into each request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Runs the check before every handler.
pub(crate) async fn guard(State(admin): State<Arc<Admin>>, mut request: Request, next: Next) -> Response {
    let checked = admin.options.access.borrow().check(request.method(), request.uri().path(), request.headers());
    match checked {
        Ok(role) => {
            let from = request.extensions().get::<Peer>().map(|peer| peer.0);
            if let Some(role) = role {
                request.extensions_mut().insert(Caller { role, from });
            }
            next.run(request).await
        }
        Err(refused) if refused.status == StatusCode::UNAUTHORIZED => {
            let mut response = refused.into_response();
            let challenge = HeaderValue::from_static("Bearer realm=\"oncekey admin\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            response
        }
        Err(refused) => refused.into_response(),
    }
}

fn check_tokens(tokens: &Tokens, method: &Method, headers: &HeaderMap) -> Result<Role, Refused> {
    let presented = only(headers, &AUTHORIZATION).and_then(|value| bearer(value.as_bytes())).unwrap_or_default();
    let is = |token: &Option<AdminToken>| token.as_ref().is_some_and(|token| token.is(presented));
    // Both are always compared: how long it takes must not tell which of them was nearer.
    match (is(&tokens.act), is(&tokens.read)) {
        (true, _) => Ok(Role::Act),
        (false, true) if method.is_safe() => Ok(Role::Read),
        (false, true) => {
            Err(Refused::new(StatusCode::FORBIDDEN, "This token may look, not change; changes need admin.token."))
        }
        (false, false) => {
            Err(Refused::new(StatusCode::UNAUTHORIZED, "Send an admin token as `Authorization: Bearer TOKEN`."))
        }
    }
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| rest.trim_ascii())
}

fn check_local(method: &Method, headers: &HeaderMap) -> Result<(), Refused> {
    let host = only(headers, &HOST).and_then(|host| host.to_str().ok()).filter(|host| is_loopback(host));
    let Some(host) = host else {
        return Err(Refused::new(
            StatusCode::FORBIDDEN,
            "Ask for this listener as 127.0.0.1, [::1] or localhost, or set admin.token.",
        ));
    };
    if headers.contains_key(ORIGIN) && !only(headers, &ORIGIN).is_some_and(|origin| is_own(origin, host)) {
        return Err(Refused::new(StatusCode::FORBIDDEN, "Without admin.token no other origin may ask this listener."));
    }
    if !method.is_safe() && !only(headers, &CONTENT_TYPE).is_some_and(is_json) {
        return Err(Refused::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Without admin.token every change needs `Content-Type: application/json`, also one without a body.",
        ));
    }
    Ok(())
}

/// The value of a field that came once; two of them leave open which one another reader would believe.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

/// Any port: a forwarded one is as local as the listener's own.
fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    if host.contains('@') {
        return false;
    }
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_own(origin: &HeaderValue, host: &str) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    origin.strip_prefix("http://").is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

fn is_json(value: &HeaderValue) -> bool {
    let media_type = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    media_type.trim_ascii().eq_ignore_ascii_case(b"application/json")
}
