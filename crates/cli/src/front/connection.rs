//! One client connection, from its first byte to its last: HTTP/1 or HTTP/2, and how each is bounded.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use oncekey_engine::fault;
use oncekey_tower::{BodyError, ResponseBody};
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::answer::Answering;
use super::flow::Flow;
use super::line::Line;
use super::places::Places;
use super::pulse::Pulse;
use super::socket::{Socket, Transport};
use super::streams::Streams;
use super::watch::{Enders, Limits, drive};
use super::{ClientAddress, ClientBody, Current, FrontOptions};
use crate::drain::Drain;

/// hyper buffers no less on a connection of HTTP/1, in bytes.
const LEAST_BUFFER: usize = 8 * 1024;

/// Field lines that hyper takes on the stack, unless it is told a number.
const HYPERS_HEADERS: usize = 100;

/// What a stream may send before it is read, and what of an answer waits to be written, in bytes.
const STREAM_WINDOW: u32 = 64 * 1024;

/// The largest window that HTTP/2 knows.
const MOST_WINDOW: u32 = (1 << 31) - 1;

/// How often a client of HTTP/2 is asked whether it is there, and how long it may take to say so.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);

/// How many streams may have to be reset for their client's mistakes before the connection ends.
const RULES_BROKEN: usize = 256;

/// How long a connection that is being ended may do nothing; longer than a socket reads on (H3).
const FAREWELL: Duration = Duration::from_secs(12);

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/2 if its first bytes are HTTP/2's preface, else HTTP/1: plain TCP, where nothing was agreed on.
    AsItBegins,
    /// HTTP/1.1 or 1.0.
    Http1,
    /// HTTP/2.
    Http2,
}

/// A client that has connected.
pub(crate) struct Client<T> {
    /// The bytes to and from it.
    pub(crate) stream: T,
    /// Its address.
    pub(crate) peer: SocketAddr,
    /// What it speaks.
    pub(crate) protocol: Protocol,
    /// What else is known of it; each of its requests has it in its extensions.
    pub(crate) known: Extensions,
}

/// The one who serves the connections of a listener.
pub(crate) struct Server<S> {
    pub(super) current: Current<S>,
    pub(super) options: FrontOptions,
    pub(super) drain: Drain,
    pub(super) places: Places,
}

impl<S> Clone for Server<S> {
    fn clone(&self) -> Self {
        let Self { current, options, drain, places } = self;
        Self { current: current.clone(), options: options.clone(), drain: drain.clone(), places: places.clone() }
    }
}

impl<S> Server<S>
where
    S: Service<Request<ClientBody>, Response = Response<ResponseBody>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BodyError>,
{
    pub(super) fn new(current: Current<S>, options: FrontOptions, drain: Drain) -> Self {
        Self { current, places: Places::new(options.max_connections), options, drain }
    }

    /// Serves one connection until it ends or is cut (D4). Dropping the future closes it; what was begun on it goes on
    /// where it doesn't belong to the connection (E3).
    pub(crate) async fn serve<T: Transport>(self, client: Client<T>) {
        let drain = self.drain.clone();
        tokio::select! {
            biased;
            () = self.speak(client) => {}
            () = drain.cut() => {}
        }
    }

    async fn speak<T: Transport>(self, mut client: Client<T>) {
        client.known.insert(ClientAddress::of(client.peer.ip()));
        let stopping = self.drain.stopping();
        let (line, pulse) = (Arc::new(Line::default()), Arc::new(Pulse::default()));
        let patience = self.options.write_timeout;
        let mut socket = Socket::new(client.stream, Arc::clone(&line), Arc::clone(&pulse), patience);
        let http2 = match client.protocol {
            Protocol::Http1 => false,
            Protocol::Http2 => true,
            Protocol::AsItBegins => {
                let enders = self.enders(&stopping, Some(self.options.head_timeout), Duration::ZERO);
                match drive(pin!(socket.begins_with_preface()), |_| {}, &pulse, enders).await {
                    Some(Ok(preface)) => preface,
                    Some(Err(_)) | None => return,
                }
            }
        };
        if http2 {
            self.http2(socket, client.known, &pulse, &stopping).await;
        } else {
            self.http1(socket, client.known, (line, pulse), &stopping).await;
        }
    }

    async fn http1<T: Transport>(
        &self,
        socket: Socket<T>,
        known: Extensions,
        (line, pulse): (Arc<Line>, Arc<Pulse>),
        stopping: &CancellationToken,
    ) {
        let (answering, shared, beats) = (self.answering(known), Arc::clone(&line), Arc::clone(&pulse));
        let answer = service_fn(move |request: Request<Incoming>| {
            Arc::clone(&answering).answer(request, Arc::clone(&shared), Flow::new(beats.begin()))
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            // Heads and idle connections are timed by whoever drives the connection.
            .header_read_timeout(None)
            .max_buf_size(self.options.max_header_bytes.max(LEAST_BUFFER))
            // A client may end its side once the request is sent; it still gets the answer (E3).
            .half_close(!fault::broken("tie_to_client"));
        if self.options.max_headers != HYPERS_HEADERS {
            http.max_headers(self.options.max_headers);
        }
        let mut http = Box::pin(http.serve_connection(TokioIo::new(socket), answer).with_upgrades());
        let enders = self.enders(stopping, Some(self.options.head_timeout), FAREWELL);
        // Its errors are the client's: a head that can't be read, a connection that broke. hyper has answered what it could.
        drive(http.as_mut(), http1::UpgradeableConnection::graceful_shutdown, &pulse, enders).await;
        drop(http);
        line.close_unused_upgrade().await;
    }

    async fn http2<T: Transport>(
        &self,
        socket: Socket<T>,
        known: Extensions,
        pulse: &Arc<Pulse>,
        stopping: &CancellationToken,
    ) {
        let options = &self.options;
        let streams = Streams::new(options.write_timeout, options.max_streams);
        let (answering, announced, beats) = (self.answering(known), streams.clone(), Arc::clone(pulse));
        let answer = service_fn(move |request: Request<Incoming>| {
            let flow = Flow::new(beats.begin());
            announced.announce(&flow);
            Arc::clone(&answering).answer_stream(request, flow)
        });
        let mut http = http2::Builder::new(streams.clone());
        http.timer(TokioTimer::new())
            .max_concurrent_streams(options.max_streams)
            .max_local_error_reset_streams(RULES_BROKEN)
            .max_header_list_size(u32::try_from(options.max_header_bytes).unwrap_or(u32::MAX))
            .initial_stream_window_size(STREAM_WINDOW)
            // Room for all streams, so that bodies which wait to be read never hold up those which are (W3).
            .initial_connection_window_size(STREAM_WINDOW.saturating_mul(options.max_streams).min(MOST_WINDOW))
            .max_send_buf_size(STREAM_WINDOW as usize)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PONG);
        let mut http = Box::pin(http.serve_connection(TokioIo::new(socket), answer));
        let enders = self.enders(stopping, None, FAREWELL);
        tokio::select! {
            biased;
            _ = drive(http.as_mut(), http2::Connection::graceful_shutdown, pulse, enders) => {}
            () = streams.broken() => tracing::debug!("an HTTP/2 client takes nothing, or only resets: its connection ends"),
        }
    }

    fn answering(&self, known: Extensions) -> Arc<Answering<S>> {
        let FrontOptions { body_timeout, max_headers, .. } = self.options;
        Arc::new(Answering { current: self.current.clone(), known, body_timeout, max_headers })
    }

    fn enders<'a>(&'a self, stopping: &'a CancellationToken, head: Option<Duration>, farewell: Duration) -> Enders<'a> {
        let limits = Limits { idle: self.options.idle_timeout, head, farewell };
        Enders { stopping, places: &self.places, limits }
    }
}
