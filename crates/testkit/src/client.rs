//! A client for requests that should work: HTTP/1.1 on one kept-alive connection.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::PATIENCE;

/// A request to be sent, any number of times.
#[derive(Clone, Debug)]
pub struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    /// A request with any method and no body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// A GET.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// A POST.
    pub fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    /// With `X-Account-Id`.
    #[must_use]
    pub fn scope(self, scope: &str) -> Self {
        self.header("x-account-id", scope)
    }

    /// With `Idempotency-Key`.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    /// With one more field line.
    ///
    /// # Panics
    /// When it is no valid field line; [`RawClient`](crate::RawClient) can send those.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("the test gives a valid field name");
        self.headers.append(name, HeaderValue::from_str(value).expect("the test gives a valid field value"));
        self
    }

    /// With a JSON body.
    #[must_use]
    pub fn json(self, body: impl Into<Bytes>) -> Self {
        self.header("content-type", "application/json").body(body)
    }

    /// With a body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The header fields; those of one name in their order.
    pub headers: HeaderMap,
    /// The body, unframed.
    pub body: Bytes,
    /// The trailers; empty when there were none.
    pub trailers: HeaderMap,
}

impl Answer {
    /// The first value of a header field, if there is one and it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether it says that it is a replay (R2).
    pub fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// The problem's code, when oncekey itself answered (P1).
    pub fn problem(&self) -> Option<&str> {
        self.header("oncekey-problem")
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    pub fn json(&self) -> serde_json::Value {
        let parsed = serde_json::from_slice(&self.body);
        parsed.unwrap_or_else(|error| panic!("{error} in {:?}", String::from_utf8_lossy(&self.body)))
    }
}

/// One client with one connection, opened when it is first needed, kept alive as long as the server keeps it. Requests
/// are never repeated: an error is the test's to judge. For clients at the same time, make several.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Trust>,
    connection: Mutex<Option<Connection>>,
}

#[derive(Debug)]
struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    _driver: JoinSet<hyper::Result<()>>,
}

impl Client {
    /// A client of the server at this address.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            #[cfg(feature = "tls")]
            tls: None,
            connection: Mutex::default(),
        }
    }

    /// A client that speaks TLS with the server at this address.
    #[cfg(feature = "tls")]
    pub fn over_tls(address: SocketAddr, tls: crate::tls::Trust) -> Self {
        Self { address, tls: Some(tls), connection: Mutex::default() }
    }

    /// A POST with scope, key and a JSON body.
    pub async fn post(&self, path: &str, scope: &str, key: &str, body: impl Into<Bytes>) -> io::Result<Answer> {
        self.call(&Call::post(path).scope(scope).key(key).json(body)).await
    }

    /// Sends a request and reads the answer whole. Fails when the connection can't be opened or ends early, when the
    /// answer is no HTTP, or after [`PATIENCE`]. Dropping the future closes the connection, as a client that gives up.
    pub async fn call(&self, call: &Call) -> io::Result<Answer> {
        let exchange = async {
            let mut connection = self.connect().await?;
            let response = connection.sender.send_request(self.request(call)).await.map_err(io::Error::other)?;
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?;
            let trailers = body.trailers().cloned().unwrap_or_default();
            *self.connection.lock() = Some(connection);
            Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes(), trailers })
        };
        tokio::time::timeout(PATIENCE, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// The kept connection if the server still keeps it, else a new one. While a call uses it, it is the call's.
    async fn connect(&self) -> io::Result<Connection> {
        let kept = self.connection.lock().take();
        if let Some(mut connection) = kept
            && connection.sender.ready().await.is_ok()
        {
            return Ok(connection);
        }
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let stream = Box::pin(tls.connect(stream)).await?;
            return Self::speak(Box::new(stream)).await;
        }
        Self::speak(stream).await
    }

    async fn speak(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> io::Result<Connection> {
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(driver);
        Ok(Connection { sender, _driver: tasks })
    }

    fn request(&self, call: &Call) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = call.path.parse().expect("the test gives a valid request target");
        *request.headers_mut() = call.headers.clone();
        let host = HeaderValue::from_str(&self.address.to_string()).expect("an address is a valid field value");
        request.headers_mut().entry(http::header::HOST).or_insert(host);
        request
    }
}
