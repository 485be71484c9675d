//! A client's socket, which closes so that the last answer arrives (H3).
//!
//! A socket closed with unread bytes, or with more to come, is reset by the system, and the reset can overtake the answer at
//! the client. So closing here means: end our side, read on for a while what the client still sends, then close.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::line::Line;

/// How long reading on lasts at most, and how long without a byte.
const LINGER: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_secs(2);

pub(super) struct Socket {
    stream: TcpStream,
    line: Arc<Line>,
    closing: Closing,
}

enum Closing {
    Open,
    Lingering { until: Instant, quiet: Pin<Box<Sleep>> },
    Closed,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, line: Arc<Line>) -> Self {
        Self { stream, line, closing: Closing::Open }
    }

    /// Reads once and forgets what it read. `Ok(0)` is the client's end.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut bytes = [0; 4096];
        let mut bytes = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut bytes))?;
        Poll::Ready(Ok(bytes.filled().len()))
    }

    /// Whether there is anything to read on: more is expected, or is there already.
    fn must_linger(&mut self, cx: &mut Context<'_>) -> bool {
        match self.poll_discard(cx) {
            Poll::Ready(Ok(read)) => read > 0,
            Poll::Ready(Err(_)) => false,
            Poll::Pending => self.line.lingers(),
        }
    }

    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let read = self.poll_discard(cx);
            let Closing::Lingering { until, quiet } = &mut self.closing else { return Poll::Ready(()) };
            match read {
                Poll::Ready(Ok(read)) if read > 0 && Instant::now() < *until => {
                    quiet.as_mut().reset((Instant::now() + QUIET).min(*until));
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return quiet.as_mut().poll(cx),
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Closing::Open = this.closing {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            // In a tunnel this ends one direction only, and the other is not ours to read.
            if this.line.is_tunnel() {
                return Poll::Ready(Ok(()));
            }
            this.closing = if this.must_linger(cx) {
                let now = Instant::now();
                Closing::Lingering { until: now + LINGER, quiet: Box::pin(tokio::time::sleep_until(now + QUIET)) }
            } else {
                Closing::Closed
            };
        }
        ready!(this.poll_linger(cx));
        this.closing = Closing::Closed;
        Poll::Ready(Ok(()))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Cut short, an answer without a length looks whole to its client unless the connection is reset.
        if self.line.ends_with_connection() && !matches!(self.closing, Closing::Closed) {
            let _ = self.stream.set_zero_linger();
        }
    }
}
