//! The body of an answer on a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body, Frame, SizeHint};
use tokio_util::task::AbortOnDropHandle;

use super::connection::Place;

/// A body that is whole only by END_STREAM, with as many bytes as announced; `h2` counts them. Whatever else ends it, a reset
/// with any code included, is an error (E7). A reset after END_STREAM concerns the request only, and comes to nothing here.
/// Dropped before its end, it resets the stream.
pub(in crate::upstream) struct Answer {
    stream: RecvStream,
    /// What is still to come, where it was announced.
    left: Option<u64>,
    /// What the stream holds until it has ended.
    held: Option<Held>,
}

pub(super) struct Held {
    pub(super) place: Arc<Place>,
    /// What is left of the request's body.
    pub(super) upload: Option<AbortOnDropHandle<()>>,
}

impl Answer {
    pub(super) fn new(stream: RecvStream, length: Option<u64>, held: Held) -> Self {
        let mut answer = Self { stream, left: length, held: Some(held) };
        if answer.stream.is_end_stream() {
            answer.end();
        }
        answer
    }

    /// The answer is whole. A request whose body is still on its way goes on: the upstream hasn't refused it.
    fn end(&mut self) {
        if let Some(Held { upload: Some(upload), .. }) = self.held.take() {
            upload.detach();
        }
    }

    fn poll_either(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let Some(data) = ready!(self.stream.poll_data(cx)) else {
            let trailers = ready!(self.stream.poll_trailers(cx));
            return Poll::Ready(trailers.map(|trailers| trailers.map(Frame::trailers)).transpose());
        };
        let data = data?;
        // Room for as much again; a stream that was reset meanwhile needs none.
        let _ = self.stream.flow_control().release_capacity(data.len());
        self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let this = self.get_mut();
        let frame = ready!(this.poll_either(cx));
        if let Some(held) = &this.held {
            held.place.heard();
        }
        match &frame {
            Some(Ok(frame)) if frame.is_data() && !this.stream.is_end_stream() => {}
            Some(Err(_)) => this.held = None,
            // A reader may stop at the last frame without asking for the end.
            _ => this.end(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.left {
            _ if self.is_end_stream() => SizeHint::with_exact(0),
            Some(left) => SizeHint::with_exact(left),
            None => SizeHint::default(),
        }
    }
}
