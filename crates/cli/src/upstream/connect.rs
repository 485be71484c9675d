//! New connections to the upstream. Whatever fails here failed before a byte of a request was sent (E6).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::uri::Scheme;
use hyper::client::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use oncekey_engine::NotExecuted;
use oncekey_store::Clock;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use super::pool::Sender;
use super::secure::{Bytestream, Negotiated, Offer, Security};
use super::{UpstreamOptions, http2};

/// Most that one connection buffers each way, and the head of an answer that is always taken, in bytes; one of twice the size
/// never is, and leaves the outcome unknown (E7).
const BUFFER: usize = 64 * 1024;
/// The most field lines of an answer's head.
const FIELD_LINES: usize = 256;

pub(super) struct Connector {
    host: String,
    port: u16,
    security: Security,
    http: Builder,
    clock: Arc<dyn Clock>,
    keep_alive: Duration,
    tasks: TaskTracker,
}

/// A new connection, in the HTTP that it speaks.
pub(super) enum Opened {
    One(Sender),
    Two(Arc<http2::Connection>),
}

impl Connector {
    pub(super) fn new(options: &UpstreamOptions, clock: Arc<dyn Clock>) -> Self {
        let (authority, tls) = (&options.authority, options.tls.clone());
        let mut http = Builder::new();
        http.max_buf_size(BUFFER).max_headers(FIELD_LINES);
        Self {
            host: authority.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 }),
            security: Security::new(tls),
            http,
            clock,
            keep_alive: options.keep_alive,
            tasks: TaskTracker::new(),
        }
    }

    /// The scheme of requests over its connections.
    pub(super) fn scheme(&self) -> Scheme {
        self.security.scheme()
    }

    /// A connection ready for its first request. The name is resolved anew each time (E12). Dropped, it leaves nothing open.
    pub(super) async fn connect(&self, deadline: Instant, offer: Offer) -> Result<Opened, NotExecuted> {
        let stream = self.reach(deadline).await?;
        // Without it a small request may wait for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let late = |_| NotExecuted::because("the upstream can be reached, but didn't begin to speak in time");
        timeout_at(deadline, self.begin(stream, offer)).await.map_err(late)?
    }

    async fn begin(&self, stream: TcpStream, offer: Offer) -> Result<Opened, NotExecuted> {
        let (stream, spoken) = self.security.secure(stream, &self.host, offer).await?;
        match spoken {
            Negotiated::One => self.begin_one(stream).await.map(Opened::One),
            Negotiated::Two => {
                let clock = Arc::clone(&self.clock);
                http2::Connection::open(stream, clock, self.keep_alive, &self.tasks).await.map(Opened::Two)
            }
        }
    }

    async fn begin_one(&self, stream: Box<dyn Bytestream>) -> Result<Sender, NotExecuted> {
        let (sender, connection) = self
            .http
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| NotExecuted::because(format!("the connection to the upstream failed: {error}")))?;
        self.tasks.spawn(async move {
            // Its errors reach whoever waits for the answer; on an idle connection they concern nobody.
            let _ = connection.with_upgrades().await;
        });
        Ok(sender)
    }

    /// Tries the name's addresses in turn, each with an equal share of the time left, so that a silent one leaves time for
    /// the next.
    async fn reach(&self, deadline: Instant) -> Result<TcpStream, NotExecuted> {
        let addresses = self.resolve(deadline).await?;
        let mut last = "its name has no address".to_owned();
        for (tried, address) in addresses.iter().enumerate() {
            let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
            let now = Instant::now();
            let share = deadline.saturating_duration_since(now) / left;
            last = match timeout_at(now + share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => format!("{address}: {error}"),
                Err(_) => format!("{address}: no answer in time"),
            };
        }
        Err(NotExecuted::because(format!("the upstream can't be reached: {last}")))
    }

    async fn resolve(&self, deadline: Instant) -> Result<Vec<SocketAddr>, NotExecuted> {
        let lookup = tokio::net::lookup_host((self.host.as_str(), self.port));
        match timeout_at(deadline, lookup).await {
            Ok(Ok(addresses)) => Ok(addresses.collect()),
            Ok(Err(error)) => Err(NotExecuted::because(format!("the upstream's name can't be resolved: {error}"))),
            Err(_) => Err(NotExecuted::because("the upstream's name wasn't resolved in time")),
        }
    }
}
