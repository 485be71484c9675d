//! The upstream against scripted servers: what counts as not executed, as broken, as whole; what goes over the wire.

mod answers;
mod connections;
mod requests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use oncekey_core::policy::Policy;
use oncekey_core::{RecordId, Timestamp};
use oncekey_engine::Attempt;
use oncekey_store::ManualClock;
use oncekey_tower::RequestBody;
use tower::ServiceExt;

use super::*;
use crate::scripted::{Peer, upstream, within};

/// The upstream under test, with a clock that the test turns.
struct Subject {
    upstream: Upstream,
    clock: Arc<ManualClock>,
}

impl Subject {
    fn at(address: SocketAddr) -> Self {
        Self::of(&address.to_string())
    }

    fn of(authority: &str) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_micros(0)));
        let mut options = UpstreamOptions::at(authority.parse().unwrap());
        options.connect_timeout = Duration::from_millis(300);
        options.protected = Protected::new([http::HeaderName::from_static("x-account-id")]);
        Self { upstream: Upstream::new(options, clock.clone(), Drain::new()), clock }
    }

    async fn send(&self, request: Request<RequestBody>) -> Result<Response<UpstreamBody>, UpstreamError> {
        within(self.upstream.clone().oneshot(request)).await
    }

    async fn post(&self) -> Result<Response<UpstreamBody>, UpstreamError> {
        self.send(keyed("an order")).await
    }
}

fn unguarded(method: Method, body: RequestBody) -> Request<RequestBody> {
    Request::builder().method(method).uri("/orders?a=1").header("host", "shop.example").body(body).unwrap()
}

fn keyed(body: &'static str) -> Request<RequestBody> {
    let mut request = unguarded(Method::POST, RequestBody::whole(Bytes::from_static(body.as_bytes())));
    let policy = Policy::default();
    request.extensions_mut().insert(Attempt { id: record(), number: 1, policy: Arc::new(policy) });
    request
}

fn record() -> RecordId {
    "00000000000000000000000000000000".parse().unwrap_or_else(|_| unreachable!("a record id parses"))
}

async fn whole(response: Response<UpstreamBody>) -> Result<Bytes, UpstreamError> {
    within(response.into_body().collect()).await.map(http_body_util::Collected::to_bytes)
}

fn is_not_sent<T>(result: Result<T, UpstreamError>) -> bool {
    matches!(result.map(drop), Err(UpstreamError::NotSent(_)))
}

fn is_broken<T>(result: Result<T, UpstreamError>) -> bool {
    matches!(result.map(drop), Err(UpstreamError::Broken(_)))
}

/// An upstream that gives each request on each connection the same answer.
async fn answering(answer: &'static str) -> SocketAddr {
    upstream(move |_, mut peer: Peer| async move {
        while peer.try_message().await.is_some() {
            peer.send(answer).await;
        }
    })
    .await
}
