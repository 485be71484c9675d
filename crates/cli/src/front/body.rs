//! The body of a client's request, which tells its connection when it is dropped before its end (H3).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::line::{Line, Unread};

/// The body of a client's request as it arrives. May be dropped at any time: the connection is then read on up to a bound,
/// or closed.
#[derive(Debug)]
pub(crate) struct ClientBody {
    /// `None` once it is given back.
    incoming: Option<Incoming>,
    /// `None` for a request without a body.
    line: Option<Arc<Line>>,
    begun: bool,
}

impl ClientBody {
    pub(super) fn new(incoming: Incoming, line: &Arc<Line>) -> Self {
        let line = (!incoming.is_end_stream()).then(|| {
            line.begin();
            Arc::clone(line)
        });
        Self { incoming: Some(incoming), line, begun: false }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let Some(incoming) = &mut this.incoming else { return Poll::Ready(None) };
        this.begun = true;
        let frame = ready!(Pin::new(incoming).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) if !frame.is_trailers() => {}
            ended => {
                if let Some(line) = this.line.take()
                    && matches!(ended, Some(Err(_)))
                {
                    line.break_body();
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        if let (Some(body), Some(line)) = (self.incoming.take(), self.line.take())
            && !body.is_end_stream()
        {
            line.leave(Unread { body, begun: self.begun });
        }
    }
}
