//! The body of an answer as it arrives, and what becomes of its connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::UpstreamError;
use super::pool::{Pool, Sender};

/// The body of an answer. Its end is proof that it is whole: a body cut short ends in an error (E7). Dropped before its end
/// it closes the connection; read to its end, the connection serves a next request.
pub(crate) struct UpstreamBody {
    incoming: Incoming,
    lease: Option<Lease>,
}

/// A connection that goes back to the pool once it is free.
pub(super) struct Lease {
    pub(super) sender: Sender,
    pub(super) pool: Arc<Pool>,
}

impl UpstreamBody {
    /// A body that arrives on the leased connection, or on one that isn't used again.
    pub(super) fn new(incoming: Incoming, lease: Option<Lease>) -> Self {
        let mut body = Self { incoming, lease };
        if body.incoming.is_end_stream() {
            body.release();
        }
        body
    }

    fn release(&mut self) {
        if let Some(Lease { sender, pool }) = self.lease.take() {
            pool.put(sender);
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = UpstreamError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.incoming).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) if !frame.is_trailers() && !this.incoming.is_end_stream() => {}
            Some(Err(_)) => this.lease = None,
            // A reader may stop at the last frame without asking for the end.
            _ => this.release(),
        }
        Poll::Ready(frame.map(|frame| frame.map_err(UpstreamError::broken)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
