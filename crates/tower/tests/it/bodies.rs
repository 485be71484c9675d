//! Bodies of requests and answers: whole, in pieces, fed by the test, or such as must not be read.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use oncekey_tower::BodyError;
use tokio::sync::mpsc;

pub(crate) type TestBody = UnsyncBoxBody<Bytes, BodyError>;

/// A body of known length.
pub(crate) fn full(bytes: impl Into<Bytes>) -> TestBody {
    Full::new(bytes.into()).map_err(Into::into).boxed_unsync()
}

/// A body whose length isn't known before its end.
pub(crate) fn pieces<const N: usize>(pieces: [Result<Bytes, &'static str>; N]) -> TestBody {
    let pieces = stream::iter(pieces).map(|piece| piece.map(Frame::data).map_err(BodyError::from));
    StreamBody::new(pieces).boxed_unsync()
}

/// A chunked body that is read without an error.
pub(crate) fn chunked<const N: usize>(chunks: [&'static [u8]; N]) -> TestBody {
    pieces(chunks.map(|chunk| Ok(Bytes::from_static(chunk))))
}

/// A body with a trailer.
pub(crate) fn with_trailers(bytes: &'static str) -> TestBody {
    followed_by(bytes, HeaderMap::from_iter([(HeaderName::from_static("x-sum"), HeaderValue::from_static("1"))]))
}

/// A body of unknown length with trailers.
pub(crate) fn followed_by(bytes: impl Into<Bytes>, trailers: HeaderMap) -> TestBody {
    let frames = [Frame::data(bytes.into()), Frame::trailers(trailers)];
    StreamBody::new(stream::iter(frames.map(Ok))).boxed_unsync()
}

pub(crate) type Feed = mpsc::UnboundedSender<Result<Bytes, BodyError>>;

/// A body that the test feeds; it ends when the feed is dropped.
pub(crate) fn fed() -> (Feed, TestBody) {
    let (feed, mut pieces) = mpsc::unbounded_channel();
    let pieces = stream::poll_fn(move |cx| pieces.poll_recv(cx)).map_ok(Frame::data);
    (feed, StreamBody::new(pieces).boxed_unsync())
}

/// A body that says how long it is and must not be read.
pub(crate) struct Untouched(pub(crate) u64);

impl Body for Untouched {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        panic!("this body must not be read");
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

/// A body that ends before it is as long as it says, as hyper gives it of a stream that its client gave up.
pub(crate) struct Short {
    pub(crate) says: u64,
    pub(crate) gives: Option<Bytes>,
}

impl Body for Short {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Ready(self.gives.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.says)
    }
}

/// Every byte there is.
pub(crate) fn all_bytes() -> Bytes {
    (0..=255).collect()
}
