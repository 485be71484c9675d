//! A TCP proxy that breaks on command, between any two programs.
//!
//! It knows nothing of HTTP. It passes a FIN on as a FIN and a reset as a reset, so that in its quiet state it can't be
//! told from a cable.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::{Cut, PATIENCE};

/// A way through a [`FaultProxy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From who connected to the target.
    Up,
    /// From the target to who connected.
    Down,
}

/// A TCP proxy on loopback. Dropping it ends everything that passes through it.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    controls: Arc<Controls>,
    _server: JoinSet<Infallible>,
}

#[derive(Debug)]
struct Controls {
    target: SocketAddr,
    mode: watch::Sender<Mode>,
    /// Counts cuts, so that each concerns the connections of its moment.
    cuts: watch::Sender<(u64, Cut)>,
    up: watch::Sender<u64>,
    down: watch::Sender<u64>,
    connections: watch::Sender<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Forward,
    Hold,
    Blackhole,
}

impl FaultProxy {
    /// Starts one on a free port in front of `target`.
    ///
    /// # Panics
    /// When loopback can't be listened on.
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a loopback port can be had");
        let address = listener.local_addr().expect("a bound socket has an address");
        let controls = Arc::new(Controls {
            target,
            mode: watch::Sender::new(Mode::Forward),
            cuts: watch::Sender::new((0, Cut::Fin)),
            up: watch::Sender::new(0),
            down: watch::Sender::new(0),
            connections: watch::Sender::new(0),
        });
        let mut server = JoinSet::new();
        server.spawn(accept(listener, Arc::clone(&controls)));
        Self { address, controls, _server: server }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://ADDRESS`, for a target that speaks HTTP.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends all connections counted so far by [`connections`](Self::connections), on both sides. New ones are accepted as
    /// before.
    pub fn cut(&self, how: Cut) {
        self.controls.cuts.send_modify(|(number, last)| (*number, *last) = (*number + 1, how));
    }

    /// From now on everything that arrives is taken and lost, on present and on new connections; nobody is told.
    pub fn blackhole(&self) {
        self.controls.mode.send_replace(Mode::Blackhole);
    }

    /// From now on nothing passes, and nothing is lost: it waits in the sockets for [`release`](Self::release).
    pub fn hold(&self) {
        self.controls.mode.send_replace(Mode::Hold);
    }

    /// Passes things on again, what was held first. What went into a blackhole stays lost.
    pub fn release(&self) {
        self.controls.mode.send_replace(Mode::Forward);
    }

    /// How many bytes have been passed on in a direction since the start.
    pub fn bytes(&self, direction: Direction) -> u64 {
        *self.counter(direction).borrow()
    }

    /// How many connections were accepted since the start.
    pub fn connections(&self) -> u32 {
        *self.controls.connections.borrow()
    }

    /// Waits until at least this many bytes have been passed on in a direction since the start.
    ///
    /// # Panics
    /// When they aren't within [`PATIENCE`].
    pub async fn passed(&self, direction: Direction, bytes: u64) {
        let mut count = self.counter(direction).subscribe();
        let reached = tokio::time::timeout(PATIENCE, count.wait_for(|count| *count >= bytes)).await;
        let seen = self.bytes(direction);
        assert!(reached.is_ok(), "waited {PATIENCE:?} for {bytes} bytes {direction:?}, saw {seen}");
    }

    fn counter(&self, direction: Direction) -> &watch::Sender<u64> {
        self.controls.counter(direction)
    }
}

impl Controls {
    fn counter(&self, direction: Direction) -> &watch::Sender<u64> {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

/// Takes connections for as long as it isn't dropped.
async fn accept(listener: TcpListener, controls: Arc<Controls>) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((client, _)) = listener.accept() => {
                // Who is counted can be cut: the subscription comes first.
                let cuts = controls.cuts.subscribe();
                controls.connections.send_modify(|connections| *connections += 1);
                connections.spawn(connect(client, Arc::clone(&controls), cuts));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One connection through the proxy, to its end.
async fn connect(mut client: TcpStream, controls: Arc<Controls>, mut cuts: watch::Receiver<(u64, Cut)>) {
    let Ok(mut target) = TcpStream::connect(controls.target).await else {
        // The nearest thing to a refusal that can be said on an accepted connection.
        let _ = client.set_zero_linger();
        return;
    };
    for stream in [&client, &target] {
        let _ = stream.set_nodelay(true);
    }
    let ending = tokio::select! {
        passed = pass(&mut client, &mut target, &controls) => if passed.is_ok() { None } else { Some(Cut::Rst) },
        Ok(()) = cuts.changed() => Some(cuts.borrow().1),
    };
    match ending {
        // Both sides have ended their half: nothing is left to say.
        None => {}
        Some(Cut::Rst) => {
            for stream in [&client, &target] {
                let _ = stream.set_zero_linger();
            }
        }
        Some(Cut::Fin) => {
            let _ = tokio::join!(finish(client), finish(target));
        }
    }
}

/// Ends a stream in order. What still arrives is read and lost: closing a socket with unread bytes would be a reset.
async fn finish(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(())
}

/// Passes both directions on until both have ended; an error is a reset from either side.
async fn pass(client: &mut TcpStream, target: &mut TcpStream, controls: &Controls) -> io::Result<()> {
    let (from_client, to_client) = client.split();
    let (from_target, to_target) = target.split();
    tokio::try_join!(
        pass_one_way(from_client, to_target, controls, Direction::Up),
        pass_one_way(from_target, to_client, controls, Direction::Down),
    )?;
    Ok(())
}

async fn pass_one_way(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    controls: &Controls,
    direction: Direction,
) -> io::Result<()> {
    let mut mode = controls.mode.subscribe();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let now = *mode.borrow_and_update();
        tokio::select! {
            biased;
            // Reading again under the new mode; nothing was taken from the socket under the old one.
            _ = mode.changed() => {}
            read = from.read(&mut buffer), if now != Mode::Hold => match (read?, now) {
                (0, Mode::Blackhole) => std::future::pending().await,
                (0, _) => return to.shutdown().await,
                (_, Mode::Blackhole) => {}
                (length, _) => {
                    to.write_all(&buffer[..length]).await?;
                    controls.counter(direction).send_modify(|count| *count += length as u64);
                }
            },
        }
    }
}
