//! Whether a connection is the server's own, or a pooler's that may hand each statement to another one.
//!
//! Only on the server's own connection does what is set up in its session (settings, prepared statements) belong to us. The
//! server says at the beginning which of its processes serves the connection; a pooler answers for itself there, with numbers
//! of its own. So the two are told apart by asking the process that runs the statements who it is.
//!
//! tokio-postgres keeps what the server said, and gives it away in one place: the request to cancel. That is written into
//! memory here, and sent to nobody.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio_postgres::Client;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// The server's process that serves this connection, as it was said when the connection was made.
pub(crate) async fn process(client: &Client) -> Option<i32> {
    /// A request to cancel: length, code, process, secret.
    const REQUEST: usize = 16;
    let (near, mut far) = duplex(64);
    // The answer to being asked for TLS, which is asked for under some `sslmode`s.
    far.write_all(b"S").await.ok()?;
    client.cancel_token().cancel_query_raw(near, Unencrypted).await.ok()?;
    let mut written = Vec::new();
    far.read_to_end(&mut written).await.ok()?;
    let request = written.get(written.len().checked_sub(REQUEST)?..)?;
    request.get(8..12)?.try_into().ok().map(i32::from_be_bytes)
}

/// What stands for TLS where nothing leaves the process.
struct Unencrypted;

/// Its stream.
struct Memory(DuplexStream);

impl TlsConnect<DuplexStream> for Unencrypted {
    type Stream = Memory;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Memory>>;

    fn connect(self, stream: DuplexStream) -> Self::Future {
        std::future::ready(Ok(Memory(stream)))
    }
}

impl TlsStream for Memory {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Memory {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, out)
    }
}

impl AsyncWrite for Memory {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
