//! Values for tests: identities, claims, answers. Tokens and owners are new at each call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use oncekey_core::record::{Lifetimes, Origin};
use oncekey_core::response::RecordedBody;
use oncekey_core::{Event, Fingerprint, Identity, Key, Namespace, OwnerId, Recipe, RecordedResponse, Scope, Token};
use oncekey_store::{Claim, Deed, Operator, Order, Outcome, Replaces};

/// Lifetimes of [`claim`]: ten minutes and a lease to run, kept for 48 hours, `unknown` for 30 days.
pub const LIFETIMES: Lifetimes = Lifetimes {
    run: Duration::from_secs(630),
    ttl: Duration::from_hours(48),
    unknown_ttl: Duration::from_hours(30 * 24),
};

static NEXT: AtomicU64 = AtomicU64::new(1);

fn unique() -> [u8; 16] {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Bytes over 0x7f and zero bytes, so that a store that takes them for text shows it.
    (u128::from(number) | (0xff00_fe00 << 96)).to_be_bytes()
}

/// A token that no other call returned.
pub fn token() -> Token {
    Token::from_bytes(unique())
}

/// An owner that no other call returned; it has no heartbeat yet.
pub fn owner() -> OwnerId {
    OwnerId::from_bytes(unique())
}

/// An identity in the namespace `default` with the scope from `X-Account-Id`.
pub fn identity(scope: &str, key: &str) -> Identity {
    Identity {
        namespace: Namespace::default(),
        scope: Scope::new("header:X-Account-Id", scope).expect("a scope"),
        key: Key::from_decoded(key).expect("a key"),
    }
}

/// A first claim with a new token: `POST /orders`, the fingerprint all sevens under a recipe with one header.
pub fn claim(identity: &Identity, owner: OwnerId) -> Claim {
    let recipe: Recipe = "v1 headers=x-tenant".parse().expect("a recipe");
    Claim {
        identity: identity.clone(),
        token: token(),
        owner,
        fingerprint: Fingerprint::from_parts([7; 32], recipe),
        origin: Origin { route: "/orders".into(), method: "POST".into(), path: "/orders".into() },
        lifetimes: LIFETIMES,
        replaces: None,
    }
}

/// A claim that means to replace the record as `replaces` saw it.
pub fn retry(identity: &Identity, owner: OwnerId, replaces: Replaces) -> Claim {
    Claim { replaces: Some(replaces), ..claim(identity, owner) }
}

/// A 201 with a text body.
pub fn response(body: &'static str) -> Arc<RecordedResponse> {
    with_body(Bytes::from_static(body.as_bytes()))
}

/// A 201 with these body bytes.
pub fn with_body(body: Bytes) -> Arc<RecordedResponse> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    let body = RecordedBody::Stored(body);
    Arc::new(RecordedResponse { status: StatusCode::CREATED, headers, body, trailers: HeaderMap::new(), trace: None })
}

/// The outcome `completed` with a text answer.
pub fn completed(body: &'static str) -> Outcome {
    Outcome { event: Event::Complete, response: Some(response(body)) }
}

/// The outcome `failed` without an answer.
pub fn failed() -> Outcome {
    Outcome { event: Event::Fail, response: None }
}

/// The outcome `unknown`.
pub fn written_off() -> Outcome {
    Outcome { event: Event::WriteOff, response: None }
}

/// An operator with something awkward in each text.
pub fn operator(call: &str) -> Operator {
    Operator {
        who: "al'ice \u{202e}(uid 1000)".to_owned(),
        via: "cli".to_owned(),
        from: Some("127.0.0.1".to_owned()),
        reason: Some("not in the \"ledger\"; 0 rows\n".to_owned()),
        call: call.to_owned(),
    }
}

/// A deed of [`operator`], on whatever it is pointed at.
pub fn order(deed: Deed) -> Order {
    Order { deed, only: None, operator: Some(operator("call-1")) }
}
