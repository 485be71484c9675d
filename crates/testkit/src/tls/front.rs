//! TLS in front of a plain server, as a terminating proxy would speak it.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use rustls::{HandshakeKind, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A TLS server on loopback whose connections go on in the clear to another address. Dropping it ends everything that
/// passes through it. An end of the plain side becomes a close_notify and a FIN, a reset a reset. While one side takes nothing,
/// nothing passes either way.
#[derive(Debug)]
pub struct TlsFront {
    address: SocketAddr,
    shared: Arc<Shared>,
    _server: JoinSet<Infallible>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    acceptor: Acceptor,
    established: AtomicU32,
    resumed: AtomicU32,
    chosen: Mutex<Option<Vec<u8>>>,
    truncates: AtomicBool,
}

struct Acceptor(TlsAcceptor);

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor")
    }
}

impl TlsFront {
    /// Starts one on a free port in front of `target`.
    ///
    /// # Panics
    /// When loopback can't be listened on.
    pub async fn start(target: SocketAddr, config: ServerConfig) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a loopback port can be had");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            target,
            acceptor: Acceptor(TlsAcceptor::from(Arc::new(config))),
            established: AtomicU32::new(0),
            resumed: AtomicU32::new(0),
            chosen: Mutex::default(),
            truncates: AtomicBool::new(false),
        });
        let mut server = JoinSet::new();
        server.spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, _server: server }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `https://ADDRESS`, as `--upstream` takes it.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// `https://localhost:PORT`.
    pub fn local_url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// How many handshakes have succeeded since the start, as this side sees it.
    pub fn established(&self) -> u32 {
        self.shared.established.load(Ordering::Relaxed)
    }

    /// How many of them resumed an earlier session.
    pub fn resumed(&self) -> u32 {
        self.shared.resumed.load(Ordering::Relaxed)
    }

    /// What ALPN chose in the last one.
    pub fn chosen(&self) -> Option<Vec<u8>> {
        self.shared.chosen.lock().clone()
    }

    /// From now on connections end with a FIN alone, without the close_notify that tells an end from a cut.
    pub fn truncate(&self) {
        self.shared.truncates.store(true, Ordering::Relaxed);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                let shared = Arc::clone(&shared);
                // How it ends is the client's to see.
                connections.spawn(async move { drop(serve(stream, &shared).await) });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut client = shared.acceptor.0.accept(stream).await?;
    let tls = client.get_ref().1;
    if tls.handshake_kind() == Some(HandshakeKind::Resumed) {
        shared.resumed.fetch_add(1, Ordering::Relaxed);
    }
    *shared.chosen.lock() = tls.alpn_protocol().map(<[u8]>::to_vec);
    shared.established.fetch_add(1, Ordering::Relaxed);
    let mut target = TcpStream::connect(shared.target).await?;
    target.set_nodelay(true)?;
    let (mut up, mut down) = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
    let mut client_open = true;
    loop {
        tokio::select! {
            read = client.read(&mut up), if client_open => match read? {
                0 => {
                    client_open = false;
                    target.shutdown().await?;
                }
                read => target.write_all(&up[..read]).await?,
            },
            read = target.read(&mut down) => match read {
                Ok(0) if shared.truncates.load(Ordering::Relaxed) => return client.get_mut().0.shutdown().await,
                Ok(0) => return client.shutdown().await,
                Ok(read) => {
                    client.write_all(&down[..read]).await?;
                    client.flush().await?;
                }
                Err(_) => return client.get_mut().0.set_zero_linger(),
            },
        }
    }
}
