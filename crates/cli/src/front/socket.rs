//! A client's socket, which closes so that the last answer arrives (H3), and fails when the client takes nothing any more.
//!
//! A socket closed with unread bytes, or with more to come, is reset by the system, and the reset can overtake the answer at
//! the client. So closing here means: end our side, read on for a while what the client still sends, then close.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use oncekey_engine::fault;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::line::Line;
use super::pulse::Pulse;

/// How long reading on lasts at most, and how long without a byte.
const LINGER: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_secs(2);

/// The first bytes of each HTTP/2 connection (RFC 9113, section 3.4). No request of HTTP/1.1 begins so.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A byte stream that a client's connection can run on.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Makes the close to come a reset, which tells the client that the last answer is cut short.
    fn close_by_reset(&self);
}

impl Transport for TcpStream {
    fn close_by_reset(&self) {
        // It fails on a socket that is closed already.
        let _ = self.set_zero_linger();
    }
}

pub(super) struct Socket<T: Transport> {
    stream: T,
    /// Read to look at, and not yet by HTTP.
    ahead: BytesMut,
    line: Arc<Line>,
    pulse: Arc<Pulse>,
    closing: Closing,
    stall: Stall,
}

enum Closing {
    Open,
    Lingering { until: Instant, quiet: Pin<Box<Sleep>> },
    Closed,
}

impl<T: Transport> Socket<T> {
    /// Fails once no byte could be written for `patience`.
    pub(super) fn new(stream: T, line: Arc<Line>, pulse: Arc<Pulse>, patience: Duration) -> Self {
        let stall = Stall { patience, timer: None, stalled: false };
        Self { stream, ahead: BytesMut::new(), line, pulse, closing: Closing::Open, stall }
    }

    /// Whether the client begins as HTTP/2 does. Reads no further than it must to tell, and what it reads stays to be read.
    pub(super) async fn begins_with_preface(&mut self) -> io::Result<bool> {
        loop {
            if !PREFACE.starts_with(&self.ahead) {
                return Ok(self.ahead.starts_with(PREFACE));
            }
            if self.ahead.len() == PREFACE.len() {
                return Ok(true);
            }
            if self.stream.read_buf(&mut self.ahead).await? == 0 {
                return Ok(false);
            }
            self.pulse.hear();
        }
    }

    /// Notes whether the client takes what is written, and fails when it hasn't for too long.
    fn written<R>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        let stalled = written.is_pending();
        self.pulse.block(stalled);
        if !stalled {
            self.stall.stalled = false;
            return written;
        }
        ready!(self.stall.poll_over(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing any more")))
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

/// How long nothing could be written.
struct Stall {
    patience: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    stalled: bool,
}

impl Stall {
    /// Resolves when it has lasted for too long.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = Instant::now() + self.patience;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if !std::mem::replace(&mut self.stalled, true) {
            timer.as_mut().reset(until);
        }
        timer.as_mut().poll(cx)
    }
}

impl<T: Transport> AsyncRead for Socket<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.ahead.is_empty() {
            let taken = this.ahead.len().min(buffer.remaining());
            buffer.put_slice(&this.ahead[..taken]);
            this.ahead.advance(taken);
            return Poll::Ready(Ok(()));
        }
        let read = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        break_framing(&mut buffer.filled_mut()[read..]);
        this.pulse.hear();
        Poll::Ready(Ok(()))
    }
}

/// Nothing, unless a test asks for a gateway that doesn't see how a request is framed.
fn break_framing(read: &mut [u8]) {
    for (rule, name) in
        [("trust_content_length", &b"transfer-encoding:"[..]), ("leave_unread_body", b"content-length:")]
    {
        if !fault::broken(rule) {
            continue;
        }
        for at in 0..read.len().saturating_sub(name.len()) {
            if read[at..at + name.len()].eq_ignore_ascii_case(name) {
                read[at] = b'x';
            }
        }
    }
}

impl<T: Transport> AsyncWrite for Socket<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.written(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        this.written(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Closing::Open = this.closing {
            let ended = Pin::new(&mut this.stream).poll_shutdown(cx);
            ready!(this.written(cx, ended))?;
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

impl<T: Transport> Drop for Socket<T> {
    fn drop(&mut self) {
        // Cut short, an answer without a length looks whole to its client unless the connection is reset.
        if self.line.ends_with_connection() && !matches!(self.closing, Closing::Closed) {
            self.stream.close_by_reset();
        }
    }
}
