//! An answer's body on its way to the client, which shows whether the client takes it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use oncekey_tower::{BodyError, ResponseBody};
use tokio::sync::Notify;

use super::pulse::Exchange;

/// One exchange, from its request's head to the last byte of its answer.
#[derive(Debug)]
pub(super) struct Flow {
    _exchange: Exchange,
    /// Grows with each piece that is handed out, and with all that is taken of it.
    moved: AtomicU64,
    /// Pieces that aren't wholly written yet.
    waiting: AtomicUsize,
    taken: Notify,
    answered: AtomicBool,
}

impl Flow {
    pub(super) fn new(exchange: Exchange) -> Arc<Self> {
        Arc::new(Self {
            _exchange: exchange,
            moved: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            taken: Notify::new(),
            answered: AtomicBool::new(false),
        })
    }

    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Acquire)
    }

    /// Whether something waits to be written.
    pub(super) fn waits(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Resolves once nothing waits to be written.
    pub(super) async fn taken(&self) {
        while self.waits() {
            self.taken.notified().await;
        }
    }

    /// Whether the whole answer was handed out.
    pub(super) fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }
}

/// An answer that ends before its end. What ended it is no source of this: hyper would look there for an error of the upstream's
/// HTTP/2 and reset the client's stream with its code. NO_ERROR and CANCEL look like a whole answer to some clients, and
/// REFUSED_STREAM says that nothing was executed.
#[derive(Debug, thiserror::Error)]
#[error("the answer is cut short")]
struct CutShort;

/// The body of an answer as the connection writes it.
pub(super) struct AnswerBody {
    body: ResponseBody,
    flow: Arc<Flow>,
}

impl AnswerBody {
    pub(super) fn new(body: ResponseBody, flow: Arc<Flow>) -> Self {
        let this = Self { body, flow };
        this.look();
        this
    }

    fn look(&self) {
        if self.body.is_end_stream() {
            self.flow.answered.store(true, Ordering::Release);
        }
    }
}

impl Body for AnswerBody {
    type Data = Piece;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, BodyError>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        let ended = frame.as_ref().is_none_or(|frame| frame.as_ref().is_ok_and(Frame::is_trailers));
        if ended {
            this.flow.answered.store(true, Ordering::Release);
        } else {
            this.look();
        }
        let piece = |frame: Frame<Bytes>| frame.map_data(|bytes| Piece::new(bytes, &this.flow));
        Poll::Ready(frame.map(|frame| frame.map(piece).map_err(|_| CutShort.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A piece of a body that is being written.
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    flow: Arc<Flow>,
}

impl Piece {
    fn new(bytes: Bytes, flow: &Arc<Flow>) -> Self {
        flow.waiting.fetch_add(1, Ordering::AcqRel);
        flow.moved.fetch_add(1, Ordering::AcqRel);
        Self { bytes, flow: Arc::clone(flow) }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.flow.moved.fetch_add(count as u64, Ordering::AcqRel);
        self.bytes.advance(count);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if self.flow.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.flow.taken.notify_one();
        }
    }
}
