//! What the gateway takes in memory: a while after its start, and with very many clients at once that all send a large
//! body. What is measured is bounded, and nobody may be lost; so this fails where the gateway would.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, RETRY_AFTER};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use oncekey_testkit::{CountingUpstream, Memory, TempDir, raise_open_files};
use serde_json::json;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::gateway::start_gateway;
use super::report::{Outcome, command_line};
use crate::{Result, workspace};

/// How many clients there are, and how long the gateway rests before its memory is read.
#[derive(Debug)]
pub(super) struct Course {
    clients: usize,
    rest: Duration,
}

/// The course whose numbers count.
pub(super) const FULL: Course = Course { clients: 10_000, rest: Duration::from_secs(10) };

/// The course that shows that the benchmark runs.
pub(super) const QUICK: Course = Course { clients: 200, rest: Duration::from_millis(500) };

const MIB: u64 = 1024 * 1024;

/// The body that every client sends: the largest that a route takes by default.
static BODY: [u8; 1024 * 1024] = [b'x'; 1024 * 1024];

/// What the gateway may take by itself.
const RESTING: u64 = 30_000_000;
/// The setting `max_buffered`, as built in.
const BUFFERED: u64 = 256 * MIB;
/// What each connection may take beside that.
const A_CONNECTION: u64 = 64 * 1024;

/// How many connections are opened at a time: a listener's queue holds a thousand or so.
const OPENED_AT_ONCE: usize = 256;
/// How often a client repeats its order before it counts as lost.
const REPEATED: u64 = 100;
/// What the system may hold back of a body on the client's side: else it would be the memory of ten thousand sockets that
/// is tested.
const SEND_BUFFER: u32 = 16 * 1024;

/// What happened to the clients.
#[derive(Debug, Default)]
struct Tally {
    /// Answers that said to come back: 202 and 503.
    put_off: u64,
    /// Connections that ended before the answer.
    broken: u64,
}

struct Measured {
    resting: Memory,
    loaded: Memory,
    tally: Tally,
    took: Duration,
}

/// Runs the benchmark against a build of the gateway. Fails where a bound is exceeded or an order is not executed once.
pub(super) async fn run(program: &Path, course: &Course) -> Result<Outcome> {
    raise_open_files()?;
    let upstream = CountingUpstream::start().await;
    let folder = workspace::target("bench");
    std::fs::create_dir_all(&folder)?;
    let store = TempDir::new_in(folder)?;
    let store_url = format!("sqlite:{}", store.path().join("memory.db").display());
    let (gateway, address) = start_gateway(program, upstream.address(), &store_url).await?;
    // Rest is what is measured; it has no event.
    tokio::time::sleep(course.rest).await;
    let resting = gateway.memory()?;

    let senders = connect(address, course.clients).await?;
    let start = Instant::now();
    let mut clients = JoinSet::new();
    for (number, sender) in senders.into_iter().enumerate() {
        clients.spawn(order(address, number, sender));
    }
    let mut tally = Tally::default();
    while let Some(ended) = clients.join_next().await {
        let Tally { put_off, broken } = ended??;
        tally = Tally { put_off: tally.put_off + put_off, broken: tally.broken + broken };
    }
    let measured = Measured { resting, loaded: gateway.memory()?, tally, took: start.elapsed() };
    let again = (0..course.clients).find(|number| upstream.executions(&scope(*number), &key(*number)) != 1);
    if let Some(number) = again {
        return Err(format!("{} was not executed once", key(number)).into());
    }
    judge(course, &measured)
}

/// Opens all connections before the first request is sent.
async fn connect(address: SocketAddr, clients: usize) -> Result<Vec<Connection>> {
    let places = Arc::new(Semaphore::new(OPENED_AT_ONCE));
    let mut opening = JoinSet::new();
    for _ in 0..clients {
        let places = Arc::clone(&places);
        opening.spawn(async move {
            let _place = places.acquire().await?;
            open(address).await
        });
    }
    let mut connections = Vec::with_capacity(clients);
    while let Some(opened) = opening.join_next().await {
        connections.push(opened??);
    }
    Ok(connections)
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    _driver: JoinSet<hyper::Result<()>>,
}

async fn open(address: SocketAddr) -> Result<Connection> {
    let socket = TcpSocket::new_v4()?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    let stream: TcpStream = socket.connect(address).await?;
    let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(driver);
    Ok(Connection { sender, _driver: tasks })
}

fn scope(number: usize) -> String {
    format!("acc-{}", number % 100)
}

fn key(number: usize) -> String {
    format!("order-{number}")
}

fn request(address: SocketAddr, number: usize) -> Result<Request<Full<Bytes>>> {
    let request = Request::post("/orders").header(HOST, address.to_string());
    let request = request.header("x-account-id", scope(number)).header("idempotency-key", key(number));
    Ok(request.body(Full::new(Bytes::from_static(&BODY)))?)
}

/// One client: repeats its order under its key until it is answered for good, as the protocol says.
async fn order(address: SocketAddr, number: usize, connection: Connection) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut kept = Some(connection);
    while tally.put_off + tally.broken < REPEATED {
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => open(address).await?,
        };
        let mut after = 1;
        match connection.sender.send_request(request(address, number)?).await {
            Ok(answer) if answer.status() == StatusCode::CREATED => {
                answer.into_body().collect().await?;
                return Ok(tally);
            }
            Ok(answer) if [StatusCode::ACCEPTED, StatusCode::SERVICE_UNAVAILABLE].contains(&answer.status()) => {
                tally.put_off += 1;
                let said = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
                after = said.unwrap_or(after);
            }
            Ok(answer) => return Err(format!("{}: an answer that ends the benchmark: {answer:?}", key(number)).into()),
            Err(_) => tally.broken += 1,
        }
        drop(connection);
        tokio::time::sleep(Duration::from_secs(after)).await;
    }
    Err(format!("{} was repeated {REPEATED} times and is lost", key(number)).into())
}

fn judge(course: &Course, measured: &Measured) -> Result<Outcome> {
    let Measured { resting, loaded, tally: Tally { put_off, broken }, took } = measured;
    let connections = A_CONNECTION * course.clients as u64;
    let bound = RESTING + BUFFERED + connections;
    let megabytes = |bytes: u64| format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
    let markdown = format!(
        "`{}`: resident memory of the gateway, {} s after its start and at its peak with {} clients at once, each with a \
         body of 1 MiB under a key of its own.\n\n\
         | | resident | bound |\n|---|---:|---:|\n| after the start | {} | {} |\n| peak under load | {} | {} |\n\n\
         All {} orders executed once, in {:.0} s; {put_off} answers said to come back, {broken} connections broke.\n",
        command_line(),
        course.rest.as_secs(),
        course.clients,
        megabytes(resting.resident),
        megabytes(RESTING),
        megabytes(loaded.peak),
        megabytes(bound),
        course.clients,
        took.as_secs_f64(),
    );
    // A debug build is larger by itself; only what was built to be used is held to the bounds.
    if !cfg!(debug_assertions) && (resting.resident >= RESTING || loaded.peak >= bound) {
        return Err(format!("more memory than promised:\n{markdown}").into());
    }
    let json = json!({
        "benchmark": "memory", "command": command_line(), "release_build": !cfg!(debug_assertions),
        "clients": course.clients, "resting_bytes": resting.resident, "resting_bound": RESTING,
        "peak_bytes": loaded.peak, "peak_bound": bound, "seconds": took.as_secs_f64(), "put_off": put_off,
        "broken_connections": broken,
    });
    Ok(Outcome { json, markdown })
}
