//! The bodies that pass through the layer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;

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
        _budget: Option<Arc<dyn Send + Sync>>,
    },
    Streaming(UnsyncBoxBody<Bytes, BodyError>),
}

macro_rules! body {
    ($name:ident) => {
        impl $name {
            /// A body that is wholly in memory.
            pub fn whole(bytes: Bytes) -> Self {
                Self(Inner::Whole { bytes, _budget: None })
            }

            /// A whole body that holds a share of a memory budget until it is dropped.
            pub fn budgeted(bytes: Bytes, budget: Arc<dyn Send + Sync>) -> Self {
                Self(Inner::Whole { bytes, _budget: Some(budget) })
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
                    Inner::Whole { bytes, .. } if bytes.is_empty() => Poll::Ready(None),
                    Inner::Whole { bytes, .. } => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
                    Inner::Streaming(body) => Pin::new(body).poll_frame(cx),
                }
            }

            fn is_end_stream(&self) -> bool {
                match &self.0 {
                    Inner::Whole { bytes, .. } => bytes.is_empty(),
                    Inner::Streaming(body) => body.is_end_stream(),
                }
            }

            fn size_hint(&self) -> SizeHint {
                match &self.0 {
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
}
