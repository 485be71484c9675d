//! Answers that reach the first client as they arrive (R7), read to their end whether or not it is still there (E3).

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::body::{BodyError, ResponseBody};

/// Frames between the upstream and the client: enough to overlap reading and writing, little enough to push back.
const FRAMES: usize = 2;

type Piece = Result<Frame<Bytes>, BodyError>;

/// The client's end.
struct Received {
    pieces: mpsc::Receiver<Piece>,
}

impl Body for Received {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
        self.pieces.poll_recv(cx)
    }
}

/// The client's body, and the future that feeds it: what was `read` so far, then the rest of `body`. A client that is gone
/// doesn't end it; it is read and dropped until `give_up`, so that an upstream that works while it answers can finish.
pub(crate) fn stream<R>(read: Vec<Bytes>, body: R, give_up: Instant) -> (ResponseBody, impl Future<Output = ()> + Send)
where
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BodyError>,
{
    let (sender, pieces) = mpsc::channel(FRAMES);
    (ResponseBody::streaming(Received { pieces }), feed(sender, read, body, give_up))
}

async fn feed<R>(sender: mpsc::Sender<Piece>, read: Vec<Bytes>, body: R, give_up: Instant)
where
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BodyError>,
{
    let mut body = Box::pin(body.map_err(Into::into));
    for bytes in read {
        if sender.send(Ok(Frame::data(bytes))).await.is_err() {
            break;
        }
    }
    loop {
        let piece = tokio::select! {
            piece = body.frame() => piece,
            () = gone_until(&sender, give_up) => return,
        };
        let Some(piece) = piece else { return };
        let cut = piece.is_err();
        // Trailers aren't part of a recorded answer, so the first one has none either.
        if piece.as_ref().is_ok_and(Frame::is_trailers) {
            continue;
        }
        let _ = sender.send(piece).await; // an error means that the client is gone; reading goes on
        if cut {
            return;
        }
    }
}

async fn gone_until(sender: &mpsc::Sender<Piece>, give_up: Instant) {
    sender.closed().await;
    sleep_until(give_up).await;
}
