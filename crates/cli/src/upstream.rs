//! The proxied API as a tower service, over connections of its own, in HTTP/1.1 or HTTP/2.
//!
//! Owns one exchange with the upstream: a connection, the check right before the first byte (E10), the request, the answer's
//! head and body, and the proof of what was not executed (E6) against what nobody can tell (E7). Leaves deadlines to its
//! caller, who drops the future, and the meaning of an answer to the engine. It never follows a redirect, never decompresses,
//! and sends a request again only when it comes back with nothing of it sent.

mod answer;
mod body;
mod connect;
mod http2;
mod lines;
mod outgoing;
mod pool;
mod secure;
#[cfg(test)]
mod tests;
mod tunnel;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::Authority;
use http::{HeaderValue, Request, Response};
use hyper::ext::ReasonPhrase;
use oncekey_engine::{Attempt, NotExecuted};
use oncekey_store::Clock;
use oncekey_tower::{BodyError, RequestBody};

pub(crate) use self::body::UpstreamBody;
use self::lines::{Answered, Line, Lines, Unanswered};
use self::outgoing::Outgoing;
use self::secure::Offer;
use crate::config::UpstreamHttp;
use crate::drain::Drain;
use crate::fields::Protected;
use crate::tls::UpstreamTls;
use crate::traces;

/// Where the upstream is, and how its connections are kept.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamOptions {
    /// Host and port; where none is given port 80, with TLS 443.
    pub authority: Authority,
    /// Which HTTP is spoken.
    pub http: UpstreamHttp,
    /// TLS, if the scheme is https.
    pub tls: Option<Arc<UpstreamTls>>,
    /// A connection idle for this long isn't used again (E12).
    pub idle: Duration,
    /// How long connecting may take for an unguarded request; a keyed one brings its route's (E6).
    pub connect_timeout: Duration,
    /// How long an unguarded request waits for the head of its answer. A keyed one waits as long as its caller does; nobody
    /// else would end the wait for an upstream that hangs, since a client that only ended its side still gets its answer.
    pub head_timeout: Duration,
    /// Idle HTTP/1.1 connections kept at most.
    pub max_idle: usize,
    /// HTTP/2 connections at most; past them a request waits for a stream to end.
    pub max_connections: usize,
    /// An HTTP/2 connection with streams gets a PING this often, and is closed if that isn't answered (E7).
    pub keep_alive: Duration,
    /// What `Connection` can't name away (H2): the key and scope fields of all routes.
    pub protected: Protected,
}

impl UpstreamOptions {
    /// The built-in values, for an upstream at `authority`.
    pub(crate) fn at(authority: Authority) -> Self {
        Self {
            authority,
            http: UpstreamHttp::Auto,
            tls: None,
            idle: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(5),
            head_timeout: Duration::from_mins(10),
            max_idle: 512,
            max_connections: 512,
            // gRPC servers allow for one in five minutes.
            keep_alive: Duration::from_secs(310),
            protected: Protected::default(),
        }
    }
}

/// Why there is no answer, or no whole one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    /// Nothing of the request was sent, or the upstream did nothing with what was (E6, E10).
    #[error("the request was not sent to the upstream, or refused before it was looked at")]
    NotSent(#[source] NotExecuted),
    /// The exchange broke after the first byte may have left: nobody can tell whether it was executed (E7).
    #[error("the exchange with the upstream broke off")]
    Broken(#[source] BodyError),
}

impl UpstreamError {
    fn broken(cause: impl Into<BodyError>) -> Self {
        Self::Broken(cause.into())
    }
}

/// The upstream. Clones share its connections.
#[derive(Clone)]
pub(crate) struct Upstream(Arc<Shared>);

struct Shared {
    lines: Lines,
    /// The `Host` of a request that came without one (HTTP/1.0).
    host: HeaderValue,
    head_timeout: Duration,
    protected: Protected,
    drain: Drain,
}

impl Upstream {
    /// An upstream without connections yet. `clock` tells how long a connection was idle; tunnels run under `drain`.
    pub(crate) fn new(options: UpstreamOptions, clock: Arc<dyn Clock>, drain: Drain) -> Self {
        let host = HeaderValue::from_str(options.authority.as_str()).expect("an authority is visible ASCII");
        Self(Arc::new(Shared {
            lines: Lines::new(&options, clock),
            host,
            head_timeout: options.head_timeout,
            protected: options.protected,
            drain,
        }))
    }
}

impl Upstream {
    /// Opens a connection as a request would, and sends nothing on it.
    pub(crate) async fn reach(&self) -> Result<(), NotExecuted> {
        let lines = &self.0.lines;
        lines.line(lines.offer, None).await.map(|line| lines.give_back(line))
    }
}

/// An answer's head is there when it resolves. Dropping it closes the connection: what was sent by then stays sent.
pub(crate) type Exchange = Pin<Box<dyn Future<Output = Result<Response<UpstreamBody>, UpstreamError>> + Send>>;

impl tower::Service<Request<RequestBody>> for Upstream {
    type Response = Response<UpstreamBody>;
    type Error = UpstreamError;
    type Future = Exchange;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), UpstreamError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Exchange {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { shared.exchange(request).await })
    }
}

impl Shared {
    async fn exchange(&self, request: Request<RequestBody>) -> Result<Response<UpstreamBody>, UpstreamError> {
        let Outgoing { mut request, attempt, upgrade } = outgoing::prepare(request, &self.protected, &self.host);
        traces::inject(request.headers_mut());
        // A connection that changes its protocol is one of HTTP/1.1.
        let offer = if upgrade.is_some() { self.lines.offer_for_upgrades() } else { Ok(self.lines.offer) };
        let offer = offer.map_err(UpstreamError::NotSent)?;
        let sent = self.send(self.lines.idle(offer), request, attempt.as_ref(), offer);
        let answered = if attempt.is_some() {
            let mut answered = sent.await?;
            // No part of a record: the first answer has the usual one, as its replays do (R1).
            answered.extensions_mut().remove::<ReasonPhrase>();
            if let Some(execution) = traces::execution() {
                answered.extensions_mut().insert(execution);
            }
            answered
        } else {
            let timed = tokio::time::timeout(self.head_timeout, sent).await;
            timed.map_err(|_| UpstreamError::broken("the upstream gave no answer in time"))??
        };
        answer::receive(answered, upgrade, self)
    }

    /// Sends the request on the idle connection or another one. Handed back unsent, it goes on another one, once (E10).
    async fn send(
        &self,
        mut idle: Option<Line>,
        mut request: Request<RequestBody>,
        attempt: Option<&Attempt>,
        offer: Offer,
    ) -> Result<Answered, UpstreamError> {
        for _ in 0..2 {
            let line = match idle.take() {
                Some(line) => line,
                None => self.lines.line(offer, attempt).await.map_err(UpstreamError::NotSent)?,
            };
            if let Some(attempt) = attempt
                && let Err(refused) = attempt.begin().await
            {
                self.lines.give_back(line);
                return Err(UpstreamError::NotSent(refused));
            }
            match self.lines.send(line, request).await {
                Ok(answered) => return Ok(answered),
                Err(Unanswered::Unsent(unsent)) => request = *unsent,
                Err(Unanswered::NotExecuted(proof)) => return Err(UpstreamError::NotSent(proof)),
                Err(Unanswered::Broken(cause)) => return Err(UpstreamError::Broken(cause)),
            }
        }
        Err(UpstreamError::NotSent(NotExecuted::because(
            "the upstream closed each connection before anything was sent",
        )))
    }
}
