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
    pub(crate) pieces: Vec<Frame<Bytes>>,
    pub(crate) share: Option<Share>,
}

/// What passes from the upstream's end to the client's.
enum Sent {
    Piece(Piece, Option<Share>),
    /// The answer was read to its end. Without it, a channel that closes means that the answer was cut.
    End,
}

/// The client's end.
struct Received {
    pieces: mpsc::Receiver<Sent>,
    /// Of the piece that is being written to the client.
    share: Option<Share>,
    ended: bool,
}

impl Body for Received {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
        self.share = None;
        if self.ended {
            return Poll::Ready(None);
        }
        let sent = ready!(self.pieces.poll_recv(cx));
        self.ended = !matches!(sent, Some(Sent::Piece(Ok(_), _)));
        Poll::Ready(match sent {
            Some(Sent::Piece(piece, share)) => {
                self.share = share;
                Some(piece)
            }
            Some(Sent::End) => None,
            // The gateway stopped reading (it drains): the client must not take what it has for the whole.
            None => Some(Err("the answer was cut short".into())),
        })
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
    (ResponseBody::streaming(Received { pieces, share: None, ended: false }), feed(sender, begun, body, give_up))
}

async fn feed<R>(sender: mpsc::Sender<Sent>, begun: Begun, body: R, give_up: Instant)
where
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BodyError>,
{
    let mut body = Box::pin(body.map_err(Into::into));
    let Begun { pieces, share } = begun;
    for frame in pieces {
        // An error means that the client is gone; reading goes on.
        let _ = sender.send(Sent::Piece(Ok(frame), share.clone())).await;
    }
    drop(share);
    loop {
        let piece = tokio::select! {
            piece = body.frame() => piece,
            () = gone_until(&sender, give_up) => return,
        };
        let Some(piece) = piece else {
            let _ = sender.send(Sent::End).await;
            return;
        };
        let cut = piece.is_err();
        let _ = sender.send(Sent::Piece(piece, None)).await;
        if cut {
            return;
        }
    }
}

async fn gone_until(sender: &mpsc::Sender<Sent>, give_up: Instant) {
    sender.closed().await;
    sleep_until(give_up).await;
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{Full, StreamBody};

    use super::*;

    fn later() -> Instant {
        Instant::now() + std::time::Duration::from_mins(1)
    }

    #[tokio::test]
    async fn an_answer_that_is_read_to_its_end_ends() {
        let (mut body, rest) = stream(Begun::default(), Full::new(Bytes::from_static(b"all")), later());
        let (frame, ()) = tokio::join!(body.frame(), rest);
        assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), "all");
        assert!(body.frame().await.is_none());
    }

    /// As when the drain time is over: the client must not take what it has for the whole.
    #[tokio::test]
    async fn an_answer_that_is_read_no_further_is_cut_and_does_not_end() {
        let endless = StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>());
        let begun = Begun { pieces: vec![Frame::data(Bytes::from_static(b"some"))], share: None };
        let (mut body, rest) = stream(begun, endless, later());
        let frame = tokio::select! {
            frame = body.frame() => frame,
            () = rest => unreachable!("its upstream goes on"),
        };
        assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), "some");
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.frame().await.is_none());
    }
}
