//! The body of a client's request, which tells its connection when it is dropped before its end (H3), and gives a client up
//! that sends nothing more of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::line::{Line, Unread};

/// The body of a client's request as it arrives. May be dropped at any time: the connection is then read on up to a bound,
/// or closed.
#[derive(Debug)]
pub(crate) struct ClientBody {
    /// `None` once it is given back.
    incoming: Option<Incoming>,
    /// `None` for a request without a body.
    line: Option<Arc<Line>>,
    /// Whether it ends by END_STREAM, and by nothing else.
    on_stream: bool,
    begun: bool,
    /// How long nothing has come.
    silence: Option<Pin<Box<Sleep>>>,
    patience: Duration,
}

/// Why there is no more of a body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientBodyError {
    /// It broke off, or broke its framing.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    /// Its stream was reset without an error.
    #[error("the client gave the stream up before the body's end")]
    GivenUp,
    /// Nothing came for too long.
    #[error("the client sent nothing more of the body for {0:?}")]
    Silent(Duration),
}

impl ClientBody {
    /// `patience` is how long nothing may come of it, until an answer to it has begun.
    pub(super) fn new(incoming: Incoming, line: &Arc<Line>, patience: Duration) -> Self {
        let line = (!incoming.is_end_stream()).then(|| {
            line.begin();
            Arc::clone(line)
        });
        Self { incoming: Some(incoming), line, on_stream: false, begun: false, silence: None, patience }
    }

    /// The same, arriving on a stream of HTTP/2.
    pub(super) fn on_stream(mut self) -> Self {
        self.on_stream = true;
        self
    }

    /// Resolves once the client was silent for too long. Not while an answer is given: then both may have their say as long as
    /// they like.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(line) = &self.line else { return Poll::Pending };
        let over = || Instant::now() + self.patience;
        let silence = self.silence.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(over())));
        loop {
            ready!(silence.as_mut().poll(cx));
            if !line.is_settled() {
                return Poll::Ready(());
            }
            silence.as_mut().reset(over());
        }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = ClientBodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ClientBodyError>>> {
        let this = self.get_mut();
        let Some(incoming) = &mut this.incoming else { return Poll::Ready(None) };
        this.begun = true;
        let frame = match Pin::new(&mut *incoming).poll_frame(cx) {
            // hyper takes a reset with NO_ERROR for the end of the body. It is what a client sends that has changed its mind.
            Poll::Ready(None) if this.on_stream && !incoming.is_end_stream() => Some(Err(ClientBodyError::GivenUp)),
            Poll::Ready(frame) => frame.map(|frame| frame.map_err(ClientBodyError::Broken)),
            Poll::Pending => {
                ready!(this.poll_silence(cx));
                Some(Err(ClientBodyError::Silent(this.patience)))
            }
        };
        this.silence = None;
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
