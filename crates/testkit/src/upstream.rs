//! The counting upstream: a real server, of HTTP/1.1 or HTTP/2, that knows how often each operation was executed, and misbehaves on
//! request.

mod answer;
mod book;
mod content;
mod http2;
mod raw;
mod script;
mod socket;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use self::book::Arrival;
pub use self::content::payload;

use self::book::Book;
use self::socket::SharedSocket;

/// What a [`CountingUpstream`] can be told at its start.
#[derive(Clone, Debug)]
pub struct Options {
    /// The request header that holds the scope.
    pub scope_header: String,
    /// The request header that holds the key.
    pub key_header: String,
    /// A file to which a line of JSON is appended per execution, before anything of the answer is sent.
    pub ledger: Option<PathBuf>,
    /// Speaks HTTP/2 by prior knowledge instead of HTTP/1.1.
    pub http2: bool,
    /// Whether it is idempotent itself: a scope and key have one effect, and every execution of them gets its answer.
    pub idempotent: bool,
}

impl Default for Options {
    fn default() -> Self {
        let (scope_header, key_header) = ("x-account-id".to_owned(), "idempotency-key".to_owned());
        Self { scope_header, key_header, ledger: None, http2: false, idempotent: false }
    }
}

/// A server on loopback, of HTTP/1.1 or HTTP/2, that counts executions and is scripted by the requests it gets. Dropping it closes its
/// listener and all its connections.
///
/// # Counting
/// A request counts as executed the moment its head has been read, before its body, any gate and any answer. That is the
/// strictest reading of "a byte reached the upstream": whatever the gateway sends twice is seen twice. Each execution
/// has a serial number, which the answer carries in `X-Serial` and in its body, so that two executions never look alike.
///
/// # Effects
/// An execution takes effect once its body has been read and its effect gate has opened, whether or not its client is still
/// there then. `GET /effects/SCOPE/KEY` gives the answer of the first effect, or 404; it counts as no execution, and is
/// understood over HTTP/1.1 only.
///
/// # Scripting
/// The test's own request says what happens to it; the headers pass through the gateway like any other:
///
/// | request header | effect |
/// |---|---|
/// | `X-Test-Status: N` | the status (default 201 for a POST, else 200); 204 and 304 have no body |
/// | `X-Test-Header: NAME: VALUE` | a further field line of the answer; may be repeated, order kept |
/// | `X-Test-Body: json` | the default: `{"serial":…,"execution":…,"scope":…,"key":…}` |
/// | `X-Test-Body: none`, `echo`, `sse` | no body; the request's body; three server-sent events |
/// | `X-Test-Body-Bytes: N` | [`payload`]: N bytes that hold all of 00–FF, as `application/octet-stream` |
/// | `X-Test-Framing: length`, `chunked`, `close` | `Content-Length` (default), chunks, or until the connection closes |
/// | `X-Test-Trailer: NAME: VALUE` | a trailer; needs `chunked` and a request with `TE: trailers` |
/// | `X-Test-Informational: N` | an interim answer (103, say) before the answer |
/// | `X-Test-Delay-Ms: N` | the answer begins N milliseconds after the request was read |
/// | `X-Test-Read-Gate: NAME` | the request's body isn't read before the gate opens |
/// | `X-Test-Effect-Gate: NAME` | nothing takes effect before the gate opens |
/// | `X-Test-Gate: NAME` | the answer doesn't begin before the gate opens |
/// | `X-Test-Body-Gate: NAME` | the answer stops after the first piece of its body until the gate opens |
/// | `X-Test-Cut: fin`, `rst` | the connection ends so, instead of the answer |
/// | `X-Test-Cut-After: N` | … after the head and N bytes of the body |
/// | `Upgrade: echo` | `101 Switching Protocols`, then every byte comes back |
///
/// Over HTTP/2, where framing is by frames and there is no upgrade, and only there:
///
/// | request header | effect |
/// |---|---|
/// | `X-Test-Reset: CODE` | the stream is reset with this code (`CANCEL`, …) instead of the answer |
/// | `X-Test-Go-Away: yes` | GOAWAY that includes this stream, and the end of the connection, instead of the answer |
/// | `X-Test-Cut-After: N` | holds for those too |
/// | `X-Test-Refuse: stream`, `go-away` | the first request with its scope and key is *not* executed nor counted: REFUSED_STREAM, or GOAWAY that ends before this stream and the end of the connection; an `X-Test-Gate` comes first |
///
/// A script that can't be read is answered with 500 and a sentence: a typing mistake must not pass for a behaviour.
#[derive(Debug)]
pub struct CountingUpstream {
    address: SocketAddr,
    book: Arc<Book>,
    _server: JoinSet<Infallible>,
}

impl CountingUpstream {
    /// Starts one on a free port.
    ///
    /// # Panics
    /// When loopback can't be listened on.
    pub async fn start() -> Self {
        Self::start_with(Options::default()).await.expect("a loopback port can be had")
    }

    /// Starts one with other header names, or with a ledger.
    pub async fn start_with(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let book = Arc::new(Book::open(options)?);
        let mut server = JoinSet::new();
        server.spawn(accept(listener, Arc::clone(&book)));
        Ok(Self { address, book, _server: server })
    }

    /// Starts one that speaks HTTP/2.
    ///
    /// # Panics
    /// When loopback can't be listened on.
    pub async fn start_http2() -> Self {
        let options = Options { http2: true, ..Options::default() };
        Self::start_with(options).await.expect("a loopback port can be had")
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://ADDRESS`, as `--upstream` takes it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How often a request with this scope and key was executed. Both are the fields' values as they arrived; an absent
    /// field counts as the empty string.
    pub fn executions(&self, scope: &str, key: &str) -> u32 {
        self.book.executions(scope, key)
    }

    /// How often executions with this scope and key took effect.
    pub fn effects(&self, scope: &str, key: &str) -> u32 {
        self.book.effects(scope, key)
    }

    /// How often it was asked about effects.
    pub fn asked(&self) -> u32 {
        self.book.asked()
    }

    /// Waits until there were at least this many effects in all.
    ///
    /// # Panics
    /// When there aren't within [`PATIENCE`](crate::PATIENCE).
    pub async fn took_effect(&self, effects: u32) {
        self.book.took_effect(effects).await;
    }

    /// How many requests were executed in all, with and without a key.
    pub fn total(&self) -> u32 {
        self.book.total()
    }

    /// Everything that arrived, in order.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.book.arrivals()
    }

    /// Waits until at least this many requests have arrived since the start.
    ///
    /// # Panics
    /// When they don't within [`PATIENCE`](crate::PATIENCE).
    pub async fn arrived(&self, requests: u32) {
        self.book.arrived(requests).await;
    }

    /// Waits until at least this many requests have been refused (`X-Test-Refuse`) since the start.
    ///
    /// # Panics
    /// When they aren't within [`PATIENCE`](crate::PATIENCE).
    pub async fn refused(&self, requests: u32) {
        self.book.refused(requests).await;
    }

    /// Waits until the bodies of at least this many requests have been read whole.
    ///
    /// # Panics
    /// When they aren't within [`PATIENCE`](crate::PATIENCE).
    pub async fn received(&self, requests: u32) {
        self.book.received(requests).await;
    }

    /// How many requests' bodies have been read whole, empty ones included.
    pub fn bodies(&self) -> u32 {
        self.book.bodies()
    }

    /// Opens a gate, now and for all who come later.
    pub fn open(&self, gate: &str) {
        self.book.open_gate(gate);
    }
}

/// Takes connections for as long as it isn't dropped.
async fn accept(listener: TcpListener, book: Arc<Book>) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // A failed accept (a reset in the queue, a moment without descriptors) concerns that client only.
            Ok((stream, _)) = listener.accept() => {
                let (socket, book) = (SharedSocket::new(stream), Arc::clone(&book));
                if book.speaks_http2() {
                    connections.spawn(http2::serve(socket, book));
                } else {
                    connections.spawn(serve(socket, book));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One connection, as the answers given on it need it.
struct Connection {
    socket: SharedSocket,
    book: Arc<Book>,
    /// Set by the request that switches protocols.
    upgrade: Mutex<Option<OnUpgrade>>,
}

/// Serves one connection until it ends. How it ended is the client's to see: an error here is a client that hung up or
/// an answer that was to be cut, and both are what tests are about.
async fn serve(socket: SharedSocket, book: Arc<Book>) {
    let stream = TokioIo::new(socket.clone());
    let connection = Arc::new(Connection { socket, book, upgrade: Mutex::default() });
    let service = service_fn(|request| answer::answer(Arc::clone(&connection), request));
    let _ = http1::Builder::new().serve_connection(stream, service).with_upgrades().await;
    let upgrade = connection.upgrade.lock().take();
    if let Some(upgrade) = upgrade {
        let _ = answer::echo(upgrade).await;
    }
}
