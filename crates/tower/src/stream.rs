//! Answers that reach the first client as they arrive (R7), read to their end whether or not it is still there (E3).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::body::{BodyError, ResponseBody};
use crate::budget::Share;

/// Frames between the upstream and the client: enough to overlap reading and writing, little enough to push back.
const FRAMES: usize = 2;

type Piece = Result<Frame<Bytes>, BodyError>;

/// What was read of an answer before it turned out to be one that is streamed, and the room that it takes.
#[derive(Default)]
pub(crate) struct Begun {
    pub(crate) pieces: Vec<Bytes>,
    pub(crate) share: Option<Share>,
}

/// The client's end.
struct Received {
    pieces: mpsc::Receiver<(Piece, Option<Share>)>,
    /// Of the piece that is being written to the client.
    share: Option<Share>,
}

impl Body for Received {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
        let (piece, share) = ready!(self.pieces.poll_recv(cx)).unzip();
        self.share = share.flatten();
        Poll::Ready(piece)
    }
}

/// The client's body, and the future that feeds it: what has `begun`, then the rest of `body`. A client that is gone
/// doesn't end it; it is read and dropped until `give_up`, so that an upstream that works while it answers can finish.
pub(crate) fn stream<R>(begun: Begun, body: R, give_up: Instant) -> (ResponseBody, impl Future<Output = ()> + Send)
where
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BodyError>,
{
    let (sender, pieces) = mpsc::channel(FRAMES);
    (ResponseBody::streaming(Received { pieces, share: None }), feed(sender, begun, body, give_up))
}

async fn feed<R>(sender: mpsc::Sender<(Piece, Option<Share>)>, begun: Begun, body: R, give_up: Instant)
where
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BodyError>,
{
    let mut body = Box::pin(body.map_err(Into::into));
    let Begun { pieces, share } = begun;
    for bytes in pieces {
        // An error means that the client is gone; reading goes on.
        let _ = sender.send((Ok(Frame::data(bytes)), share.clone())).await;
    }
    drop(share);
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
        let _ = sender.send((piece, None)).await;
        if cut {
            return;
        }
    }
}

async fn gone_until(sender: &mpsc::Sender<(Piece, Option<Share>)>, give_up: Instant) {
    sender.closed().await;
    sleep_until(give_up).await;
}
