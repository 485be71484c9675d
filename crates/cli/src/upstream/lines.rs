//! The connections of both kinds, and which of them a request takes.
//!
//! Owns the choice of the HTTP that is spoken. Leaves each kind's rules to `pool` and to `http2`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Extensions, Request, Response};
use hyper::body::Incoming;
use oncekey_engine::{Attempt, NotExecuted};
use oncekey_store::Clock;
use oncekey_tower::{BodyError, RequestBody};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::connect::{Connector, Opened};
use super::pool::{Pool, Sender};
use super::secure::Offer;
use super::{UpstreamOptions, http2};
use crate::config::UpstreamHttp;

/// A connection, or a place on one, that is ready for one request.
pub(super) enum Line {
    One(Sender),
    Two(http2::Place),
}

/// The head of an answer, and what its body comes by.
pub(super) enum Answered {
    One(Response<Incoming>, Sender),
    Two(Response<http2::Answer>),
}

impl Answered {
    pub(super) fn extensions_mut(&mut self) -> &mut Extensions {
        match self {
            Self::One(response, _) => response.extensions_mut(),
            Self::Two(response) => response.extensions_mut(),
        }
    }
}

/// Why there is no answer.
pub(super) enum Unanswered {
    /// Nothing was sent; here the request is again.
    Unsent(Box<Request<RequestBody>>),
    /// The upstream did nothing with it (E6).
    NotExecuted(NotExecuted),
    /// Nobody can tell (E7).
    Broken(BodyError),
}

pub(super) struct Lines {
    connector: Connector,
    /// What a request that doesn't change the protocol may go by.
    pub(super) offer: Offer,
    /// Idle HTTP/1.1 connections.
    pub(super) pool: Arc<Pool>,
    /// HTTP/2 connections of keyed requests.
    pub(super) keyed: Arc<http2::Pool>,
    /// HTTP/2 connections of all others, whose clients may upload and read as slowly as they like: what that does to a
    /// connection must not make unknowns.
    pub(super) unguarded: Arc<http2::Pool>,
    /// Whether the upstream chose HTTP/1.1 last. While it does, its connections are opened side by side.
    chose_one: AtomicBool,
    connect_timeout: Duration,
    tasks: TaskTracker,
}

impl Lines {
    pub(super) fn new(options: &UpstreamOptions, clock: Arc<dyn Clock>) -> Self {
        Self {
            connector: Connector::new(options, Arc::clone(&clock)),
            offer: match options.http {
                UpstreamHttp::Auto => Offer::Either,
                UpstreamHttp::One => Offer::One,
                UpstreamHttp::Two => Offer::Two,
            },
            pool: Arc::new(Pool::new(options.idle, options.max_idle, clock)),
            keyed: Arc::new(http2::Pool::new(options.idle, options.max_connections)),
            unguarded: Arc::new(http2::Pool::new(options.idle, options.max_connections)),
            chose_one: AtomicBool::new(false),
            connect_timeout: options.connect_timeout,
            tasks: TaskTracker::new(),
        }
    }

    /// What a request that asks for a change of protocol may go by.
    pub(super) fn offer_for_upgrades(&self) -> Result<Offer, NotExecuted> {
        if self.offer == Offer::Two {
            return Err(NotExecuted::because("a change of protocol needs HTTP/1.1, and `upstream_http` is \"2\""));
        }
        Ok(Offer::One)
    }

    /// An HTTP/1.1 connection that waits for a request, where that is spoken.
    pub(super) fn idle(&self, offer: Offer) -> Option<Line> {
        if offer == Offer::Two { None } else { self.pool.take().map(Line::One) }
    }

    /// A place on an HTTP/2 connection, or a new connection, within the route's time to connect.
    pub(super) async fn line(&self, offer: Offer, attempt: Option<&Attempt>) -> Result<Line, NotExecuted> {
        let within = attempt.map_or(self.connect_timeout, |attempt| attempt.policy.timing.connect_timeout);
        let deadline = Instant::now() + within;
        let streams = if attempt.is_some() { &self.keyed } else { &self.unguarded };
        loop {
            if offer == Offer::One {
                return self.open(deadline, offer, streams).await;
            }
            if let Some(place) = streams.take(deadline).await? {
                return Ok(Line::Two(place));
            }
            if offer == Offer::Either && self.chose_one.load(Ordering::Relaxed) {
                return self.open(deadline, offer, streams).await;
            }
            let _turn = streams.to_open(deadline).await?;
            // Whoever had the turn before may have opened one.
            match streams.look() {
                http2::Look::Place(place) => return Ok(Line::Two(place)),
                http2::Look::Room => return self.open(deadline, offer, streams).await,
                http2::Look::Full => {}
            }
        }
    }

    async fn open(&self, deadline: Instant, offer: Offer, streams: &Arc<http2::Pool>) -> Result<Line, NotExecuted> {
        match self.connector.connect(deadline, offer).await? {
            Opened::One(sender) => {
                self.chose_one.store(true, Ordering::Relaxed);
                Ok(Line::One(sender))
            }
            Opened::Two(connection) => {
                self.chose_one.store(false, Ordering::Relaxed);
                let place = streams.add(connection);
                place.map(Line::Two).ok_or_else(|| NotExecuted::because("the upstream takes no streams"))
            }
        }
    }

    /// Takes back what nothing was sent on.
    pub(super) fn give_back(&self, line: Line) {
        if let Line::One(sender) = line {
            self.pool.put(sender);
        }
    }

    /// Sends a request, once.
    pub(super) async fn send(&self, line: Line, request: Request<RequestBody>) -> Result<Answered, Unanswered> {
        match line {
            Line::One(mut sender) => match sender.try_send_request(request).await {
                Ok(response) => Ok(Answered::One(response, sender)),
                Err(mut failed) => Err(match failed.take_message() {
                    Some(unsent) => Unanswered::Unsent(Box::new(unsent)),
                    None => Unanswered::Broken(failed.into_error().into()),
                }),
            },
            Line::Two(place) => {
                http2::send(place, request, &self.connector.scheme(), &self.tasks).await.map(Answered::Two)
            }
        }
    }
}
