//! A client of HTTP/2 with prior knowledge: many requests at a time on one connection, each of which may be left unfinished
//! or reset.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response, Version};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::PATIENCE;
use crate::client::{Answer, Call};

/// One connection of HTTP/2. It is never opened again: when it is over, requests fail. Dropping it closes it.
#[derive(Debug)]
pub struct Http2Client {
    sender: SendRequest<Bytes>,
    address: SocketAddr,
    scheme: &'static str,
    driver: JoinSet<Result<(), h2::Error>>,
}

impl Http2Client {
    /// Connects, with room for everything that comes.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::with_window(address, 16 * 1024 * 1024).await
    }

    /// Connects, and takes at most `window` bytes of each answer until they are read.
    pub async fn with_window(address: SocketAddr, window: u32) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Self::speak(stream, address, "http", window).await
    }

    /// Connects through TLS, in which it offers HTTP/2 only.
    #[cfg(feature = "tls")]
    pub async fn over_tls(address: SocketAddr, tls: &crate::tls::Trust) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let tls = tls.clone().offering(&[b"h2"]);
        let stream = Box::pin(tls.connect(stream)).await?;
        Self::speak(Box::new(stream), address, "https", 16 * 1024 * 1024).await
    }

    async fn speak(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        address: SocketAddr,
        scheme: &'static str,
        window: u32,
    ) -> io::Result<Self> {
        let mut builder = Builder::new();
        builder.initial_window_size(window).initial_connection_window_size(64 * 1024 * 1024).enable_push(false);
        let (sender, connection) = builder.handshake(stream).await.map_err(io::Error::other)?;
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        Ok(Self { sender, address, scheme, driver })
    }

    /// Sends a request and reads its answer whole. Fails when the stream is reset, the connection ends, or after
    /// [`PATIENCE`]. Dropping the future resets the stream.
    pub async fn call(&self, call: &Call) -> io::Result<Answer> {
        let exchange = async {
            let (response, mut body) = self.open(call, call.body.is_empty()).await?;
            if !call.body.is_empty() {
                body.send_data(call.body.clone(), true).map_err(io::Error::other)?;
            }
            whole(response.await.map_err(io::Error::other)?).await
        };
        tokio::time::timeout(PATIENCE, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Sends a request's head; its body, if it isn't ended here, is the caller's to send.
    pub async fn open(&self, call: &Call, ended: bool) -> io::Result<(ResponseFuture, SendStream<Bytes>)> {
        let mut sender = self.sender.clone().ready().await.map_err(io::Error::other)?;
        sender.send_request(self.request(call), ended).map_err(io::Error::other)
    }

    /// Waits until the connection is over; the error that ended it, if one did.
    ///
    /// # Panics
    /// When it isn't within [`PATIENCE`].
    pub async fn over(mut self) -> Option<h2::Error> {
        let joined = tokio::time::timeout(PATIENCE, self.driver.join_next()).await.expect("the connection ends");
        joined.expect("there is a driver").expect("it doesn't panic").err()
    }

    fn request(&self, call: &Call) -> Request<()> {
        let mut request = Request::new(());
        *request.version_mut() = Version::HTTP_2;
        *request.method_mut() = call.method.clone();
        let target = format!("{}://{}{}", self.scheme, self.address, call.path);
        *request.uri_mut() = target.parse().expect("the test gives a valid request target");
        *request.headers_mut() = call.headers.clone();
        request
    }
}

/// Reads an answer to its end.
pub async fn whole(response: Response<RecvStream>) -> io::Result<Answer> {
    let (head, mut body) = response.into_parts();
    let mut read = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.map_err(io::Error::other)?;
        body.flow_control().release_capacity(data.len()).map_err(io::Error::other)?;
        read.extend_from_slice(&data);
    }
    let trailers = body.trailers().await.map_err(io::Error::other)?.unwrap_or_else(HeaderMap::new);
    Ok(Answer { status: head.status, headers: head.headers, body: read.into(), trailers })
}
