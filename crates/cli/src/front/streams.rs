//! The streams of an HTTP/2 connection: each a task, ended when its client takes nothing of its answer any more.
//!
//! hyper and h2 bound how many there are and what they hold. What they don't see is told here: an answer that is stuck in
//! flow control, and a client that resets what it has just asked for, again and again.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::flow::Flow;

/// Runs the streams of one connection. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Streams(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The exchange whose stream hyper hands over next: it calls the service, then the executor.
    next: Mutex<Option<Arc<Flow>>>,
    /// How long an answer may wait with nothing of it taken.
    patience: Duration,
    /// Streams that ended before their answer was given, less those that were answered.
    resets: AtomicU32,
    most_resets: u32,
    tasks: TaskTracker,
    broken: CancellationToken,
}

impl Streams {
    /// `patience` is how long an answer may wait for its client; `most` bounds the streams that may be reset in a row.
    pub(super) fn new(patience: Duration, most: u32) -> Self {
        Self(Arc::new(Shared {
            next: Mutex::default(),
            patience,
            resets: AtomicU32::new(0),
            most_resets: most,
            tasks: TaskTracker::new(),
            broken: CancellationToken::new(),
        }))
    }

    /// Announces the exchange of the stream that comes next.
    pub(super) fn announce(&self, flow: &Arc<Flow>) {
        *self.0.next.lock() = Some(Arc::clone(flow));
    }

    /// Resolves when the client's behaviour ends the connection.
    pub(super) async fn broken(&self) {
        self.0.broken.cancelled().await;
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let flow = self.0.next.lock().take();
        let shared = Arc::clone(&self.0);
        self.0.tasks.spawn(async move {
            match flow {
                Some(flow) => shared.run(stream, &flow).await,
                None => stream.await,
            }
        });
    }
}

impl Shared {
    /// Runs a stream until its answer is with the client. Dropped, a stream is reset.
    async fn run(&self, stream: impl Future<Output = ()>, flow: &Flow) {
        let mut stream = pin!(Some(stream));
        let mut seen = flow.moved();
        loop {
            let ended = stream.is_none();
            let answer = async {
                match stream.as_mut().as_pin_mut() {
                    Some(stream) => stream.await,
                    None => flow.taken().await,
                }
            };
            tokio::select! {
                biased;
                () = answer => {
                    if ended {
                        return;
                    }
                    stream.set(None);
                    self.count(flow);
                }
                () = tokio::time::sleep(self.patience) => {
                    let moved = flow.moved();
                    if flow.waits() && moved == seen {
                        // What h2 holds of an answer that was handed over whole goes only with the connection.
                        if ended {
                            self.broken.cancel();
                        } else {
                            self.count(flow);
                        }
                        return;
                    }
                    seen = moved;
                }
            }
        }
    }

    fn count(&self, flow: &Flow) {
        let change =
            |resets: u32| Some(if flow.is_answered() { resets.saturating_sub(1) } else { resets.saturating_add(1) });
        let before = self.resets.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
        if !flow.is_answered() && before.is_ok_and(|before| before >= self.most_resets) {
            self.broken.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Buf, Bytes};
    use http_body_util::BodyExt;
    use oncekey_tower::ResponseBody;
    use tokio::sync::oneshot;

    use super::super::flow::{AnswerBody, Piece};
    use super::super::pulse::Pulse;
    use super::*;

    const PATIENCE: Duration = Duration::from_mins(1);

    fn flow() -> Arc<Flow> {
        Flow::new(Arc::new(Pulse::default()).begin())
    }

    /// A piece of an answer that is to be written.
    async fn piece(flow: &Arc<Flow>) -> Piece {
        let mut body = AnswerBody::new(ResponseBody::whole(Bytes::from_static(b"answer")), Arc::clone(flow));
        body.frame().await.unwrap().unwrap().into_data().ok().unwrap()
    }

    /// Runs a stream that doesn't end by itself; what is given resolves when it is dropped.
    fn endless(streams: &Streams, flow: &Arc<Flow>) -> oneshot::Receiver<()> {
        let (held, dropped) = oneshot::channel::<()>();
        streams.announce(flow);
        streams.execute(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        dropped
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_when_nothing_of_its_answer_is_taken_for_long() {
        let (streams, flow) = (Streams::new(PATIENCE, 10), flow());
        let mut dropped = endless(&streams, &flow);
        // Nothing waits: an answer may be as late as it likes.
        tokio::time::sleep(PATIENCE * 10).await;
        let mut waiting = piece(&flow).await;
        for _ in 0..5 {
            tokio::time::sleep(PATIENCE).await;
            waiting.advance(1);
            assert!(dropped.try_recv() == Err(oneshot::error::TryRecvError::Empty), "it is taken, if slowly");
        }
        tokio::time::timeout(PATIENCE * 2, dropped).await.unwrap().unwrap_err();
        assert!(!streams.0.broken.is_cancelled(), "its connection goes on");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_was_handed_over_whole_and_is_not_taken_ends_the_connection() {
        let (streams, flow) = (Streams::new(PATIENCE, 10), flow());
        let waiting = piece(&flow).await;
        streams.announce(&flow);
        streams.execute(async {});
        tokio::time::timeout(PATIENCE * 3, streams.broken()).await.unwrap();
        drop(waiting);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_goes_once_its_answer_is_taken() {
        let (streams, flow) = (Streams::new(PATIENCE, 10), flow());
        let waiting = piece(&flow).await;
        streams.announce(&flow);
        streams.execute(async {});
        tokio::time::sleep(PATIENCE / 2).await;
        assert_eq!(streams.0.tasks.len(), 1);
        drop(waiting);
        streams.0.tasks.close();
        streams.0.tasks.wait().await;
        assert!(!streams.0.broken.is_cancelled());
    }

    #[tokio::test]
    async fn only_resets_in_a_row_end_the_connection() {
        let streams = Streams::new(PATIENCE, 3);
        let ended = async |answered: bool| {
            let flow = flow();
            if answered {
                drop(piece(&flow).await);
            }
            streams.announce(&flow);
            streams.execute(async {});
            while !streams.0.tasks.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        for _ in 0..10 {
            ended(true).await;
            ended(false).await;
        }
        assert!(!streams.0.broken.is_cancelled());
        for _ in 0..3 {
            ended(false).await;
        }
        assert!(streams.0.broken.is_cancelled());
    }
}
