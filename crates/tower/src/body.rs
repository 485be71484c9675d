//! The bodies that pass through the layer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;

/// The most of a whole body that is handed out at once.
const PIECE: usize = 64 * 1024;

/// Any error of a body.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request as the inner service gets it: whole for a keyed request, streaming for any other.
pub struct RequestBody(Inner);

/// The body of a response as the layer gives it: whole for a held or replayed one, streaming for any other.
pub struct ResponseBody(Inner);

enum Inner {
    /// What is left of a whole body, with the share of the memory budget that it holds.
    Whole {
        bytes: Bytes,
        /// Never empty.
        trailers: Option<Box<HeaderMap>>,
        _budget: Option<Arc<dyn Send + Sync>>,
    },
    Streaming(UnsyncBoxBody<Bytes, BodyError>),
}

macro_rules! body {
    ($name:ident) => {
        impl $name {
            /// A body that is wholly in memory.
            pub fn whole(bytes: Bytes) -> Self {
                Self(Inner::Whole { bytes, trailers: None, _budget: None })
            }

            /// A whole body that holds a share of a memory budget until it is dropped.
            pub fn budgeted(bytes: Bytes, budget: Arc<dyn Send + Sync>) -> Self {
                Self(Inner::Whole { bytes, trailers: None, _budget: Some(budget) })
            }

            /// A body that arrives as it is read.
            pub fn streaming<B>(body: B) -> Self
            where
                B: Body<Data = Bytes> + Send + 'static,
                B::Error: Into<BodyError>,
            {
                Self(Inner::Streaming(UnsyncBoxBody::new(http_body_util::BodyExt::map_err(body, Into::into))))
            }
        }

        impl Body for $name {
            type Data = Bytes;
            type Error = BodyError;

            fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
                match &mut self.get_mut().0 {
                    Inner::Whole { bytes, trailers, .. } if bytes.is_empty() => {
                        Poll::Ready(trailers.take().map(|trailers| Ok(Frame::trailers(*trailers))))
                    }
                    // Piece by piece: whoever writes it out takes the next piece when the last one is gone, and until then the
                    // rest stays here, with its share of the budget.
                    Inner::Whole { bytes, .. } => {
                        let piece = bytes.split_to(bytes.len().min(PIECE));
                        Poll::Ready(Some(Ok(Frame::data(piece))))
                    }
                    Inner::Streaming(body) => Pin::new(body).poll_frame(cx),
                }
            }

            fn is_end_stream(&self) -> bool {
                match &self.0 {
                    Inner::Whole { bytes, trailers, .. } => bytes.is_empty() && trailers.is_none(),
                    Inner::Streaming(body) => body.is_end_stream(),
                }
            }

            fn size_hint(&self) -> SizeHint {
                match &self.0 {
                    // HTTP/1.1 has no place for trailers after a body that is framed by its length.
                    Inner::Whole { bytes, trailers: Some(_), .. } => {
                        let mut hint = SizeHint::new();
                        hint.set_lower(bytes.len() as u64);
                        hint
                    }
                    Inner::Whole { bytes, .. } => SizeHint::with_exact(bytes.len() as u64),
                    Inner::Streaming(body) => body.size_hint(),
                }
            }
        }
    };
}

body!(RequestBody);
body!(ResponseBody);

impl ResponseBody {
    /// Whether all of it is in memory.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.0, Inner::Whole { .. })
    }

    /// The same whole body with trailers after it; a streaming one has its own.
    pub(crate) fn followed_by(mut self, all: HeaderMap) -> Self {
        if let Inner::Whole { trailers, .. } = &mut self.0 {
            *trailers = (!all.is_empty()).then(|| Box::new(all));
        }
        self
    }

    /// What is left of a whole body.
    pub(crate) fn whole_bytes(&self) -> Option<&Bytes> {
        match &self.0 {
            Inner::Whole { bytes, .. } => Some(bytes),
            Inner::Streaming(_) => None,
        }
    }

    /// The trailers of a whole body, if it has any.
    pub(crate) fn trailers(&self) -> Option<&HeaderMap> {
        match &self.0 {
            Inner::Whole { trailers, .. } => trailers.as_deref(),
            Inner::Streaming(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    /// So that what a slow client hasn't read yet stays counted.
    #[tokio::test]
    async fn a_large_body_is_handed_out_in_pieces_and_keeps_its_share_until_the_last() {
        let share: Arc<dyn Send + Sync> = Arc::new(());
        let mut body = ResponseBody::budgeted(Bytes::from(vec![7; 3 * PIECE - 1]), Arc::clone(&share));
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            assert_eq!(Arc::strong_count(&share), 2);
            pieces.push(frame.unwrap().into_data().unwrap().len());
        }
        assert_eq!(pieces, [PIECE, PIECE, PIECE - 1]);
    }
}
