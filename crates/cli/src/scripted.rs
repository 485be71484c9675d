//! Raw peers for tests of the proxy: clients and upstreams that say exactly the bytes that a test wants said.

pub(crate) mod frames;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

/// Fails the test when what it awaits doesn't come.
pub(crate) async fn within<F: Future>(awaited: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), awaited).await.expect("what is awaited comes in time")
}

/// Starts an upstream that treats each connection, numbered from 0, as `serve` says.
pub(crate) async fn upstream<F, T>(serve: F) -> SocketAddr
where
    F: Fn(usize, Peer) -> T + Send + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tasks = TaskTracker::new();
    tasks.clone().spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            tasks.spawn(serve(number, Peer::new(stream)));
        }
    });
    address
}

/// One end of a connection.
pub(crate) struct Peer {
    stream: TcpStream,
    read: Vec<u8>,
}

/// A message as it came over the wire.
#[derive(Debug)]
pub(crate) struct Message {
    /// The head in lower case, without its blank line.
    pub(crate) head: String,
    /// The body without its framing; the trailers of a chunked one are left out.
    pub(crate) body: Vec<u8>,
    /// The trailers in lower case.
    pub(crate) trailers: String,
}

impl Message {
    /// The first line.
    pub(crate) fn start(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// The values of a field, which is given in lower case.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.filter(|(found, _)| *found == name).map(|(_, value)| value.trim()).collect()
    }

    /// The one value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() < 2, "{name} stands on several lines: {}", self.head);
        all.first().copied()
    }
}

impl Peer {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self { stream, read: Vec::new() }
    }

    pub(crate) async fn connect(to: SocketAddr) -> Self {
        Self::new(within(TcpStream::connect(to)).await.unwrap())
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        within(self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Sends what the other side takes; false if it has closed.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        within(self.stream.write_all(bytes.as_ref())).await.is_ok()
    }

    /// The connection itself, of which nothing was read yet.
    pub(crate) fn into_stream(self) -> TcpStream {
        assert!(self.read.is_empty());
        self.stream
    }

    /// Ends this side and goes on reading.
    pub(crate) async fn end(&mut self) {
        within(self.stream.shutdown()).await.unwrap();
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// Reads more; false at the end.
    async fn more(&mut self) -> std::io::Result<bool> {
        Ok(within(self.stream.read_buf(&mut self.read)).await? > 0)
    }

    /// The bytes before `mark`, or `None` if the connection ends first.
    async fn until(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.read.windows(mark.len()).position(|window| window == mark) {
                let found = self.read.drain(..at).collect();
                self.read.drain(..mark.len());
                return Some(found);
            }
            if !self.more().await.unwrap_or(false) {
                return None;
            }
        }
    }

    pub(crate) async fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.read.len() < count {
            assert!(self.more().await.unwrap(), "the connection ended after {:?}", String::from_utf8_lossy(&self.read));
        }
        self.read.drain(..count).collect()
    }

    /// So many bytes, or `None` if the connection ends first.
    pub(crate) async fn try_bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.read.len() < count {
            if !self.more().await.unwrap_or(false) {
                return None;
            }
        }
        Some(self.read.drain(..count).collect())
    }

    /// Everything up to the orderly end of the connection; a reset is the error.
    pub(crate) async fn rest(&mut self) -> std::io::Result<Vec<u8>> {
        while self.more().await? {}
        Ok(std::mem::take(&mut self.read))
    }

    /// A head, in lower case; `None` if the connection ends before it.
    pub(crate) async fn head(&mut self) -> Option<String> {
        let head = self.until(b"\r\n\r\n").await?;
        Some(String::from_utf8(head).unwrap().to_ascii_lowercase())
    }

    /// A message with its body, by its framing; without one there is no body.
    pub(crate) async fn try_message(&mut self) -> Option<Message> {
        let mut message = Message { head: self.head().await?, body: Vec::new(), trailers: String::new() };
        if message.field("transfer-encoding") == Some("chunked") {
            loop {
                let size = String::from_utf8(self.until(b"\r\n").await?).unwrap();
                let size = usize::from_str_radix(&size, 16).unwrap();
                if size == 0 {
                    break;
                }
                message.body.extend(self.bytes(size).await);
                assert_eq!(self.bytes(2).await, b"\r\n");
            }
            loop {
                let line = String::from_utf8(self.until(b"\r\n").await?).unwrap();
                if line.is_empty() {
                    break;
                }
                message.trailers.push_str(&line.to_ascii_lowercase());
            }
        } else if let Some(length) = message.field("content-length") {
            let length = length.parse().unwrap();
            message.body = self.bytes(length).await;
        }
        Some(message)
    }

    pub(crate) async fn message(&mut self) -> Message {
        self.try_message().await.expect("a message comes")
    }
}
