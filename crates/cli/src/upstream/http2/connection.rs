//! One HTTP/2 connection: how many streams it carries, since when it is idle, when its peer was last heard (E12).
//!
//! Owns its driver and its PINGs. Leaves the choice among connections to `pool`.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong};
use oncekey_engine::NotExecuted;
use oncekey_store::Clock;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::task::TaskTracker;

use crate::upstream::secure::Bytestream;

/// The most streams that one connection carries, whatever its peer allows: a lost connection takes all of them along.
const MAX_STREAMS: usize = 100;
/// What a stream may have received that nobody has read yet, in bytes.
const STREAM_WINDOW: u32 = 128 * 1024;
/// The same for all streams of a connection together: what a connection holds in memory at most.
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// The longest head or trailers of an answer, in bytes as HTTP/2 counts them. Longer ones leave the outcome unknown (E7).
const HEADER_LIST: u32 = 64 * 1024;
/// What a stream has handed over for sending and its peer hasn't taken yet, in bytes.
const SEND_BUFFER: usize = 64 * 1024;

pub(in crate::upstream) struct Connection {
    requests: SendRequest<Bytes>,
    clock: Arc<dyn Clock>,
    usage: Mutex<Usage>,
    /// Wakes the driver to send a PING.
    asked: Arc<Notify>,
    /// When the last answered PING was asked for; closed once the connection has ended.
    proven: watch::Receiver<Option<Duration>>,
}

struct Usage {
    streams: usize,
    /// Since when there are no streams.
    since: Duration,
    /// When something of an answer last arrived.
    heard: Duration,
    /// Takes no more streams.
    retired: bool,
}

/// Whether a connection takes one more stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vacancy {
    /// It does.
    Free,
    /// It would, but its peer wasn't heard for a while.
    Silent,
    /// Not before one of its streams ends.
    Full,
    /// Never again.
    Gone,
}

impl Connection {
    /// Opens a connection and waits until its peer has answered a PING: proof, before anything of a request is sent, that it
    /// speaks HTTP/2 at all, and since its settings come first, they are known from here on. Without a limit of its own;
    /// dropped, it closes what was opened.
    pub(in crate::upstream) async fn open(
        stream: Box<dyn Bytestream>,
        clock: Arc<dyn Clock>,
        keep_alive: Duration,
        tasks: &TaskTracker,
    ) -> Result<Arc<Self>, NotExecuted> {
        let failed = |error| NotExecuted::because(format!("the connection to the upstream failed: {error}"));
        let (requests, mut connection) = builder().handshake(stream).await.map_err(failed)?;
        let pings = connection.ping_pong().expect("it is taken once");
        let (proofs, proven) = watch::channel(None);
        let asked = Arc::new(Notify::new());
        let now = clock.elapsed();
        let usage = Mutex::new(Usage { streams: 0, since: now, heard: now, retired: false });
        let opened = Arc::new(Self { requests, clock: Arc::clone(&clock), usage, asked: Arc::clone(&asked), proven });
        let mut pulse = Pulse { pings, asked, proofs, clock, keep_alive, of: Arc::downgrade(&opened) };
        tasks.spawn(async move {
            // Its errors reach the streams. Dropped because its peer is dead, it ends them.
            tokio::select! {
                _ = connection => {}
                () = pulse.stopped() => {}
            }
        });
        if opened.answers().await {
            Ok(opened)
        } else {
            Err(NotExecuted::because("the upstream doesn't answer in HTTP/2"))
        }
    }

    /// Whether it takes one more stream. Without streams it is idle, and the upstream may close it at any moment from some
    /// time on (E12); with streams the upstream won't, but it may be gone without a word.
    pub(super) fn vacancy(&self, idle: Duration) -> Vacancy {
        let now = self.clock.elapsed();
        let usage = self.usage.lock();
        let longer = |since: Duration| now.saturating_sub(since) >= idle;
        let heard = usage.heard.max(self.proven.borrow().unwrap_or_default());
        if usage.retired || !self.is_open() || (usage.streams == 0 && longer(usage.since)) {
            Vacancy::Gone
        } else if usage.streams >= self.max_streams() {
            Vacancy::Full
        } else if usage.streams > 0 && longer(heard) {
            Vacancy::Silent
        } else {
            Vacancy::Free
        }
    }

    /// A place for one more stream, if there is one.
    pub(super) fn reserve(self: &Arc<Self>, freed: &Arc<Notify>) -> Option<Place> {
        let mut usage = self.usage.lock();
        if usage.retired || usage.streams >= self.max_streams() {
            return None;
        }
        usage.streams += 1;
        Some(Place { connection: Arc::clone(self), freed: Arc::clone(freed) })
    }

    /// Takes no streams from now on.
    pub(super) fn retire(&self) {
        self.usage.lock().retired = true;
    }

    /// Sends a PING and waits for its answer; false once the connection has ended. Others who ask meanwhile share it.
    pub(super) async fn answers(&self) -> bool {
        let asked = self.clock.elapsed();
        let mut proven = self.proven.clone();
        self.asked.notify_one();
        proven.wait_for(|proof| proof.is_some_and(|at| at >= asked)).await.is_ok()
    }

    /// False after GOAWAY, an error or the end of the connection.
    fn is_open(&self) -> bool {
        self.requests.clone().ready().now_or_never().is_some_and(|ready| ready.is_ok())
    }

    fn max_streams(&self) -> usize {
        self.requests.current_max_send_streams().min(MAX_STREAMS)
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADER_LIST)
        .max_send_buffer_size(SEND_BUFFER);
    builder
}

/// A stream's place on a connection, free again once it is dropped.
pub(in crate::upstream) struct Place {
    connection: Arc<Connection>,
    freed: Arc<Notify>,
}

impl Place {
    /// A handle to send one request by.
    pub(super) fn requests(&self) -> SendRequest<Bytes> {
        self.connection.requests.clone()
    }

    /// Notes that something of an answer has arrived.
    pub(super) fn heard(&self) {
        self.connection.usage.lock().heard = self.connection.clock.elapsed();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut usage = self.connection.usage.lock();
        usage.streams -= 1;
        if usage.streams == 0 {
            usage.since = self.connection.clock.elapsed();
        }
        drop(usage);
        self.freed.notify_one();
    }
}

/// The PINGs of a connection: on demand, and every `keep_alive` while it carries streams.
struct Pulse {
    pings: PingPong,
    asked: Arc<Notify>,
    proofs: watch::Sender<Option<Duration>>,
    clock: Arc<dyn Clock>,
    keep_alive: Duration,
    of: Weak<Connection>,
}

impl Pulse {
    /// Resolves once a PING wasn't answered.
    async fn stopped(&mut self) {
        loop {
            tokio::select! {
                () = self.asked.notified() => {}
                () = tokio::time::sleep(self.keep_alive) => {
                    if self.of.upgrade().is_none_or(|connection| connection.usage.lock().streams == 0) {
                        continue;
                    }
                }
            }
            // By the time of the question: the answer may lie unread through a pause.
            let asked = self.clock.elapsed();
            if !self.beat().await {
                return;
            }
            self.proofs.send_replace(Some(asked));
        }
    }

    /// Waits in two halves: after a pause of the process the first one is over at once, and what has arrived meanwhile is
    /// read during the second.
    async fn beat(&mut self) -> bool {
        let mut pong = std::pin::pin!(self.pings.ping(Ping::opaque()));
        for _ in 0..2 {
            if let Ok(answered) = tokio::time::timeout(self.keep_alive / 2, &mut pong).await {
                return answered.is_ok();
            }
        }
        false
    }
}
