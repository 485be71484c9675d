//! One HTTP/2 connection: how many streams it carries, since when it is idle, when its peer was last heard (E12).
//!
//! Owns its driver and its PINGs, which are few: gRPC servers take more than one in five minutes for an attack and close the
//! connection, with all that runs on it. Leaves the choice among connections to `pool`.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong};
use oncekey_engine::NotExecuted;
use oncekey_store::Clock;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio_util::task::TaskTracker;

use crate::upstream::secure::Bytestream;

/// The most streams that one connection carries, whatever its peer allows: a lost connection takes all of them along.
const MAX_STREAMS: u32 = 100;
/// What a stream may have received that nobody has read yet, in bytes.
const STREAM_WINDOW: u32 = 64 * 1024;
/// Room for all streams: those that nobody reads must not keep the others from being read.
const CONNECTION_WINDOW: u32 = MAX_STREAMS * STREAM_WINDOW;
/// What `h2` lets small unread frames cost beside their bytes, at about 256 bytes each, before it takes them for an attack and
/// closes the connection: enough for many event streams that nobody reads for a while.
const SMALL_FRAMES: usize = 16 * 1024 * 1024;
/// The longest head or trailers of an answer, in bytes as HTTP/2 counts them. Longer ones leave the outcome unknown (E7).
const HEADER_LIST: u32 = 64 * 1024;
/// How long the peer of a connection with streams may take to answer a PING, if that is shorter than the time between two.
const PONG_WITHIN: Duration = Duration::from_secs(20);
/// What a stream has handed over for sending and its peer hasn't taken yet, in bytes.
const SEND_BUFFER: usize = 64 * 1024;

pub(in crate::upstream) struct Connection {
    requests: SendRequest<Bytes>,
    clock: Arc<dyn Clock>,
    usage: Mutex<Usage>,
}

struct Usage {
    streams: usize,
    /// Since when there are no streams.
    since: Duration,
    /// When the peer was last heard: by a part of an answer, or by a PING's.
    heard: Duration,
}

/// Whether a connection takes one more stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vacancy {
    /// It does.
    Free,
    /// Not now: it is full, or its peer wasn't heard for a while.
    Busy,
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
        let now = clock.elapsed();
        let usage = Mutex::new(Usage { streams: 0, since: now, heard: now });
        let opened = Arc::new(Self { requests, clock, usage });
        let mut pulse = Pulse { pings, keep_alive, of: Arc::downgrade(&opened) };
        let (answers, answered) = oneshot::channel();
        tasks.spawn(async move {
            // Its errors reach the streams. Dropped because its peer is dead, it ends them.
            tokio::select! {
                _ = connection => {}
                () = pulse.stopped(answers) => {}
            }
        });
        answered.await.map_err(|_| NotExecuted::because("the upstream doesn't answer in HTTP/2"))?;
        Ok(opened)
    }

    /// Whether it takes one more stream. Without streams it is idle, and the upstream may close it at any moment from some
    /// time on (E12). With streams the upstream won't, but it may be gone without a word.
    pub(super) fn vacancy(&self, idle: Duration) -> Vacancy {
        let now = self.clock.elapsed();
        let usage = self.usage.lock();
        let longer = |since: Duration| now.saturating_sub(since) >= idle;
        if !self.is_open() || (usage.streams == 0 && longer(usage.since)) {
            Vacancy::Gone
        } else if usage.streams >= self.max_streams() || (usage.streams > 0 && longer(usage.heard)) {
            Vacancy::Busy
        } else {
            Vacancy::Free
        }
    }

    /// A place for one more stream, if there is one.
    pub(super) fn reserve(self: &Arc<Self>, freed: &Arc<Notify>) -> Option<Place> {
        let mut usage = self.usage.lock();
        if usage.streams >= self.max_streams() {
            return None;
        }
        usage.streams += 1;
        Some(Place { connection: Arc::clone(self), freed: Arc::clone(freed) })
    }

    fn heard(&self, at: Duration) {
        let mut usage = self.usage.lock();
        usage.heard = usage.heard.max(at);
    }

    /// False after GOAWAY, an error or the end of the connection.
    fn is_open(&self) -> bool {
        self.requests.clone().ready().now_or_never().is_some_and(|ready| ready.is_ok())
    }

    fn max_streams(&self) -> usize {
        self.requests.current_max_send_streams().min(MAX_STREAMS as usize)
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .data_frame_budget(SMALL_FRAMES)
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
        self.connection.heard(self.connection.clock.elapsed());
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

/// The PINGs of a connection: one at its beginning, then one every `keep_alive` while it carries streams.
struct Pulse {
    pings: PingPong,
    keep_alive: Duration,
    of: Weak<Connection>,
}

impl Pulse {
    /// Tells when the first PING was answered; resolves once one wasn't.
    async fn stopped(&mut self, first: oneshot::Sender<()>) {
        // Whoever opens the connection knows for how long to wait.
        if self.pings.ping(Ping::opaque()).await.is_err() || first.send(()).is_err() {
            return;
        }
        loop {
            tokio::time::sleep(self.keep_alive).await;
            let Some(connection) = self.of.upgrade() else { continue };
            if connection.usage.lock().streams == 0 {
                continue;
            }
            // By the time of the question: the answer may lie unread through a pause.
            let asked = connection.clock.elapsed();
            if !self.beat().await {
                return;
            }
            connection.heard(asked);
        }
    }

    /// Waits in two halves: after a pause of the process the first one is over at once, and what has arrived meanwhile is
    /// read during the second.
    async fn beat(&mut self) -> bool {
        let half = self.keep_alive.min(PONG_WITHIN) / 2;
        let mut pong = std::pin::pin!(self.pings.ping(Ping::opaque()));
        for _ in 0..2 {
            if let Ok(answered) = tokio::time::timeout(half, &mut pong).await {
                return answered.is_ok();
            }
        }
        false
    }
}
