//! The body of an answer as it arrives, and what becomes of its connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::pool::{Pool, Sender};
use super::{UpstreamError, http2};

/// The body of an answer. Its end is proof that it is whole: a body cut short ends in an error (E7). Dropped before its end
/// it closes the connection or resets its stream; read to its end, the connection serves a next request. Trailers are its
/// last frame (R6).
pub(crate) struct UpstreamBody(Arriving);

enum Arriving {
    Connection { incoming: Incoming, lease: Option<Lease> },
    Stream(http2::Answer),
}

/// A connection that goes back to the pool once it is free.
pub(super) struct Lease {
    pub(super) sender: Sender,
    pub(super) pool: Arc<Pool>,
}

impl Lease {
    fn release(lease: &mut Option<Self>) {
        if let Some(Self { sender, pool }) = lease.take() {
            pool.put(sender);
        }
    }
}

impl UpstreamBody {
    /// A body that arrives on the leased connection, or on one that isn't used again.
    pub(super) fn on_connection(incoming: Incoming, mut lease: Option<Lease>) -> Self {
        if incoming.is_end_stream() {
            Lease::release(&mut lease);
        }
        Self(Arriving::Connection { incoming, lease })
    }

    /// A body that arrives on a stream.
    pub(super) fn on_stream(answer: http2::Answer) -> Self {
        Self(Arriving::Stream(answer))
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = UpstreamError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        let (incoming, lease) = match &mut self.get_mut().0 {
            Arriving::Connection { incoming, lease } => (incoming, lease),
            Arriving::Stream(answer) => return Pin::new(answer).poll_frame(cx).map_err(UpstreamError::broken),
        };
        let frame = ready!(Pin::new(&mut *incoming).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) if !frame.is_trailers() && !incoming.is_end_stream() => {}
            Some(Err(_)) => *lease = None,
            // A reader may stop at the last frame without asking for the end.
            _ => Lease::release(lease),
        }
        Poll::Ready(frame.map(|frame| frame.map_err(UpstreamError::broken)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Arriving::Connection { incoming, .. } => incoming.is_end_stream(),
            Arriving::Stream(answer) => answer.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Arriving::Connection { incoming, .. } => incoming.size_hint(),
            Arriving::Stream(answer) => answer.size_hint(),
        }
    }
}
