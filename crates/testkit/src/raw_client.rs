//! A client that is one TCP connection: it sends the bytes the test gives, right or wrong, and reads answers as they
//! stand on the wire.

mod framing;

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use self::framing::{Framing, Head};
use crate::PATIENCE;

/// An answer as it stood on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawAnswer {
    /// The status.
    pub status: u16,
    /// All field lines in order, names spelled as sent.
    pub headers: Vec<(String, String)>,
    /// The body, unframed.
    pub body: Vec<u8>,
    /// The trailer lines of a chunked body.
    pub trailers: Vec<(String, String)>,
}

impl RawAnswer {
    /// All values under a name, in order; the name in any case.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }
}

/// What a connection runs on.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin + std::fmt::Debug {
    fn tcp(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

#[cfg(feature = "tls")]
impl Wire for tokio_rustls::client::TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// A TCP connection to a server. Every wait ends after [`PATIENCE`] with `TimedOut`. Dropping a reading future loses what
/// it has taken from the connection.
#[derive(Debug)]
pub struct RawClient {
    stream: Box<dyn Wire>,
    /// Read from the socket and not yet asked for.
    unread: Vec<u8>,
}

impl RawClient {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: Box::new(stream), unread: Vec::new() })
    }

    /// Connects and establishes TLS.
    #[cfg(feature = "tls")]
    pub async fn connect_tls(address: SocketAddr, tls: &crate::tls::Trust) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: Box::new(within(tls.connect(stream)).await?), unread: Vec::new() })
    }

    /// Sends bytes as they are.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        within(self.stream.write_all(bytes.as_ref())).await
    }

    /// Ends the sending side (FIN, through TLS after a close_notify); answers can still be read.
    pub async fn finish(&mut self) -> io::Result<()> {
        within(self.stream.shutdown()).await
    }

    /// Ends the connection with a reset.
    pub fn reset(self) -> io::Result<()> {
        self.stream.tcp().set_zero_linger()
    }

    /// Reads one answer by its framing. An interim answer (1xx) is an answer of its own. Fails with `UnexpectedEof` when
    /// the connection ends before the answer does, with `InvalidData` when it is no answer or framed ambiguously.
    pub async fn read_answer(&mut self) -> io::Result<RawAnswer> {
        within(self.answer(false)).await
    }

    /// Reads the answer to a HEAD: it has no body, whatever its framing fields say.
    pub async fn read_answer_to_head(&mut self) -> io::Result<RawAnswer> {
        within(self.answer(true)).await
    }

    /// Reads bytes as they are until they contain `end`, and gives them up to there. What follows stays to be read.
    pub async fn read_until(&mut self, end: impl AsRef<[u8]>) -> io::Result<Vec<u8>> {
        within(self.take_until(end.as_ref())).await
    }

    /// Reads bytes as they are until the server ends the connection in order. A reset is an error.
    pub async fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        within(async {
            while self.fill().await? {}
            Ok(std::mem::take(&mut self.unread))
        })
        .await
    }

    async fn answer(&mut self, to_head: bool) -> io::Result<RawAnswer> {
        let Head { status, headers } = Head::parse(&self.take_until(b"\r\n\r\n").await?)?;
        let mut trailers = Vec::new();
        let framing = if to_head { Framing::Length(0) } else { Framing::of(status, &headers)? };
        let body = match framing {
            Framing::Length(length) => self.take(length).await?,
            Framing::Chunked => self.take_chunks(&mut trailers).await?,
            Framing::Close => {
                while self.fill().await? {}
                std::mem::take(&mut self.unread)
            }
        };
        Ok(RawAnswer { status, headers, body, trailers })
    }

    async fn take_chunks(&mut self, trailers: &mut Vec<(String, String)>) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let length = framing::chunk_length(&self.take_until(b"\r\n").await?)?;
            if length == 0 {
                break;
            }
            body.extend(self.take(length).await?);
            if self.take(2).await? != b"\r\n" {
                return Err(framing::invalid("a chunk doesn't end where its length says"));
            }
        }
        loop {
            let line = self.take_until(b"\r\n").await?;
            if line == b"\r\n" {
                return Ok(body);
            }
            trailers.push(framing::field_line(&line)?);
        }
    }

    async fn take_until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.unread[searched..].windows(end.len()).position(|window| window == end) {
                return self.take(searched + at + end.len()).await;
            }
            searched = (self.unread.len() + 1).saturating_sub(end.len());
            self.fill_or_fail().await?;
        }
    }

    async fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < length {
            self.fill_or_fail().await?;
        }
        let rest = self.unread.split_off(length);
        Ok(std::mem::replace(&mut self.unread, rest))
    }

    async fn fill_or_fail(&mut self) -> io::Result<()> {
        if self.fill().await? {
            return Ok(());
        }
        let unread = String::from_utf8_lossy(&self.unread).into_owned();
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("the connection ended after {unread:?}")))
    }

    /// Reads once from the socket; false at the end of the stream.
    async fn fill(&mut self) -> io::Result<bool> {
        self.unread.reserve(64 * 1024);
        Ok(self.stream.read_buf(&mut self.unread).await? > 0)
    }
}

async fn within<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
