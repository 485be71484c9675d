//! The load: clients that each keep one connection and send their next request when they have the last answer (a closed
//! loop). Every answer is checked; a benchmark of wrong answers is none.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hdrhistogram::Histogram;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::plain::ORDER;
use crate::Result;

/// The order that every request places.
const REQUEST: &[u8] =
    br#"{"items":[{"sku":"tea-green-100","qty":2},{"sku":"cup-white","qty":1}],"amount":1200,"currency":"EUR"}"#;

/// Which keys the requests carry.
#[derive(Debug)]
pub(super) struct Keys {
    kind: Kind,
    used: AtomicU64,
}

#[derive(Debug)]
enum Kind {
    None,
    Fresh(String),
    Around(u64),
    Once(&'static str, u64),
}

impl Keys {
    /// None at all.
    pub(super) fn none() -> Self {
        Self::of(Kind::None)
    }

    /// A new key for each request; `name` tells these from all others.
    pub(super) fn fresh(name: String) -> Self {
        Self::of(Kind::Fresh(name))
    }

    /// The hot keys, again and again.
    pub(super) fn hot(count: u64) -> Self {
        Self::of(Kind::Around(count))
    }

    /// The hot keys, each once; the load ends when they are used up.
    pub(super) fn hot_once(count: u64) -> Self {
        Self::of(Kind::Once("hot", count))
    }

    /// The many keys, each once; the load ends when they are used up.
    pub(super) fn old_once(count: u64) -> Self {
        Self::of(Kind::Once("old", count))
    }

    fn of(kind: Kind) -> Self {
        Self { kind, used: AtomicU64::new(0) }
    }

    /// The next request, or nothing when the keys are used up.
    fn next(&self) -> Option<Request<Full<Bytes>>> {
        let number = self.used.fetch_add(1, Ordering::Relaxed);
        let key = match &self.kind {
            Kind::None => None,
            Kind::Fresh(name) => Some(format!("fresh-{name}-{number}")),
            Kind::Around(count) => Some(format!("hot-{}", number % count)),
            Kind::Once(name, count) if number < *count => Some(format!("{name}-{number}")),
            Kind::Once(..) => return None,
        };
        let mut request = Request::post("/orders").header("host", "bench").header("content-type", "application/json");
        request = request.header("x-account-id", "bench");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        Some(request.body(Full::new(Bytes::from_static(REQUEST))).expect("these fields are valid"))
    }
}

/// Connected clients.
#[derive(Debug)]
pub(super) struct Clients {
    senders: Vec<SendRequest<Full<Bytes>>>,
    /// Whether their answers must be replays, or mustn't.
    replayed: bool,
    _drivers: JoinSet<hyper::Result<()>>,
}

/// What a load measured.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) requests: u64,
    pub(super) took: Duration,
    /// Microseconds from a request to its whole answer.
    pub(super) latency: Histogram<u64>,
}

impl Clients {
    pub(super) async fn connect(address: SocketAddr, count: usize, replayed: bool) -> Result<Self> {
        let (mut senders, mut drivers) = (Vec::new(), JoinSet::new());
        for _ in 0..count {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
            drivers.spawn(driver);
            senders.push(sender);
        }
        Ok(Self { senders, replayed, _drivers: drivers })
    }

    /// Sends requests for a while, or until the keys are used up. Fails on the first wrong answer.
    pub(super) async fn drive(&mut self, keys: &Arc<Keys>, span: Duration) -> Result<Measured> {
        let start = Instant::now();
        let mut running = JoinSet::new();
        for sender in self.senders.drain(..) {
            running.spawn(drive_one(sender, Arc::clone(keys), start + span, self.replayed));
        }
        let mut latency = histogram();
        while let Some(ended) = running.join_next().await {
            let (sender, measured) = ended??;
            latency.add(measured)?;
            self.senders.push(sender);
        }
        Ok(Measured { requests: latency.len(), took: start.elapsed(), latency })
    }
}

async fn drive_one(
    mut sender: SendRequest<Full<Bytes>>,
    keys: Arc<Keys>,
    end: Instant,
    replayed: bool,
) -> Result<(SendRequest<Full<Bytes>>, Histogram<u64>)> {
    let mut latency = histogram();
    while Instant::now() < end
        && let Some(request) = keys.next()
    {
        let start = Instant::now();
        sender.ready().await?;
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        latency.record(u64::try_from(start.elapsed().as_micros())?)?;
        let is_replay = head.headers.contains_key("idempotent-replayed");
        if head.status != StatusCode::CREATED || body != ORDER || is_replay != replayed {
            let body = String::from_utf8_lossy(&body);
            return Err(format!("a wrong answer ends the benchmark: {head:?} {body}").into());
        }
    }
    Ok((sender, latency))
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are within what a histogram can do")
}
