//! A proxy that knows PostgreSQL's messages: it cuts connections right before or right after a statement's commit, and counts
//! statements.
//!
//! Only for statements of the extended protocol that are transactions of their own: such a one commits at its `Sync`; and for
//! those of the simple protocol, a COMMIT above all. And only without TLS.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::PATIENCE;

/// When a connection is cut, seen from the commit of a statement on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutAt {
    /// The server has executed the statement and is never asked to commit it.
    BeforeCommit,
    /// The server has committed the statement, and who sent it isn't told.
    AfterCommit,
}

/// The proxy, on loopback. Dropping it ends everything that passes through it.
#[derive(Debug)]
pub struct CommitCutter {
    address: SocketAddr,
    controls: Arc<Controls>,
    _server: JoinSet<Infallible>,
}

#[derive(Debug)]
struct Controls {
    target: SocketAddr,
    rules: Mutex<Vec<Rule>>,
    statements: Mutex<HashMap<String, u64>>,
    parsed: Mutex<HashMap<String, u64>>,
    cuts: watch::Sender<u32>,
}

#[derive(Debug)]
struct Rule {
    containing: &'static str,
    every: u32,
    seen: u32,
    at: CutAt,
}

impl CommitCutter {
    /// Starts one on a free port in front of a server, or of a pooler.
    ///
    /// # Panics
    /// When loopback can't be listened on.
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a loopback port can be had");
        let address = listener.local_addr().expect("a bound socket has an address");
        let controls = Arc::new(Controls {
            target,
            rules: Mutex::default(),
            statements: Mutex::default(),
            parsed: Mutex::default(),
            cuts: watch::Sender::new(0),
        });
        let mut server = JoinSet::new();
        server.spawn(accept(listener, Arc::clone(&controls)));
        Self { address, controls, _server: server }
    }

    /// The URL of a database by way of it.
    pub fn url(&self, database: &str) -> String {
        format!("{}?sslmode=disable", super::PostgresServer::url_by(self.address, database))
    }

    /// From now on cuts the connection of every so-manieth statement whose text contains `containing`.
    pub fn cut_every(&self, every: u32, containing: &'static str, at: CutAt) {
        self.controls.rules.lock().push(Rule { containing, every, seen: 0, at });
    }

    /// Cuts nothing any more.
    pub fn heal(&self) {
        self.controls.rules.lock().clear();
    }

    /// How many connections were cut.
    pub fn cuts(&self) -> u32 {
        *self.controls.cuts.borrow()
    }

    /// Waits until this many connections were cut.
    ///
    /// # Panics
    /// When they aren't within [`PATIENCE`].
    pub async fn until_cuts(&self, cuts: u32) {
        let mut count = self.controls.cuts.subscribe();
        let reached = tokio::time::timeout(PATIENCE, count.wait_for(|count| *count >= cuts)).await;
        assert!(reached.is_ok(), "waited {PATIENCE:?} for {cuts} cuts, saw {}", self.cuts());
    }

    /// How many statements with such a text were run since the start; all of them for an empty text.
    pub fn statements(&self, containing: &str) -> u64 {
        total(&self.controls.statements, containing)
    }

    /// How many times the server was given such a text to parse: once for all runs of a prepared statement.
    pub fn parsed(&self, containing: &str) -> u64 {
        total(&self.controls.parsed, containing)
    }
}

fn total(counts: &Mutex<HashMap<String, u64>>, containing: &str) -> u64 {
    counts.lock().iter().filter(|(text, _)| text.contains(containing)).map(|(_, count)| count).sum()
}

impl Controls {
    /// Counts a statement; whether its connection is to be cut.
    fn meet(&self, statement: &str) -> Option<CutAt> {
        *self.statements.lock().entry(statement.to_owned()).or_default() += 1;
        let mut rules = self.rules.lock();
        let rule = rules.iter_mut().find(|rule| statement.contains(rule.containing))?;
        rule.seen += 1;
        (rule.seen % rule.every == 0).then_some(rule.at)
    }
}

/// Takes connections for as long as it isn't dropped.
async fn accept(listener: TcpListener, controls: Arc<Controls>) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((client, _)) = listener.accept() => {
                connections.spawn(connect(client, Arc::clone(&controls)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connect(client: TcpStream, controls: Arc<Controls>) {
    if let Ok(server) = TcpStream::connect(controls.target).await {
        for stream in [&client, &server] {
            let _ = stream.set_nodelay(true);
        }
        let mut link =
            Link { client, controls, greeted: false, pending: 1, doomed: None, heard: false, parsed: HashMap::new() };
        // Where it ends, both connections are closed; the client reads an end of the stream or a reset.
        if link.pass(server).await.is_ok_and(|cut| cut) {
            let _ = link.client.set_zero_linger();
            link.controls.cuts.send_modify(|cuts| *cuts += 1);
        }
    } else {
        let _ = client.set_zero_linger();
    }
}

/// One connection through the proxy.
struct Link {
    client: TcpStream,
    controls: Arc<Controls>,
    /// Whether the first message was seen, which has no type.
    greeted: bool,
    /// Answers that end in a `ReadyForQuery` and are still to come; the first is that to the greeting.
    pending: u32,
    /// Once set, how the connection ends, and how many answers are passed on before.
    doomed: Option<(CutAt, u32)>,
    /// Whether all of the client's last statement was taken: nothing more is.
    heard: bool,
    /// The texts of prepared statements by name; that of the unnamed one is empty.
    parsed: HashMap<String, String>,
}

impl Link {
    /// Passes messages on until either side ends the connection (false) or it is to be cut (true).
    async fn pass(&mut self, mut server: TcpStream) -> io::Result<bool> {
        let (mut up, mut down) = (BytesMut::new(), BytesMut::new());
        loop {
            tokio::select! {
                read = self.client.read_buf(&mut up), if !self.heard => {
                    if read? == 0 {
                        return Ok(false);
                    }
                    let forward = self.look_up(&mut up);
                    server.write_all(&forward).await?;
                }
                read = server.read_buf(&mut down) => {
                    if read? == 0 {
                        return Ok(false);
                    }
                    let (forward, cut) = self.look_down(&mut down);
                    self.client.write_all(&forward).await?;
                    if cut {
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// What of the client's whole messages the server gets.
    fn look_up(&mut self, buffer: &mut BytesMut) -> BytesMut {
        /// Asks for what was answered so far, and commits nothing.
        const FLUSH: &[u8] = b"H\0\0\0\x04";
        /// Does nothing, in place of a statement of the simple protocol.
        const NOTHING: &[u8] = b"Q\0\0\0\x0bSELECT\0";
        let mut forward = BytesMut::new();
        while let Some((kind, message)) = take(buffer, self.greeted) {
            self.greeted = true;
            let text = match kind {
                Some(b'P') => {
                    let [name, text] = strings(&message);
                    *self.controls.parsed.lock().entry(text.clone()).or_default() += 1;
                    self.parsed.insert(name, text);
                    None
                }
                Some(b'B') => {
                    let [_portal, name] = strings(&message);
                    self.parsed.get(&name).cloned()
                }
                Some(b'Q') => {
                    let [text, _] = strings(&message);
                    Some(text)
                }
                _ => None,
            };
            if let Some(at) = text.and_then(|text| self.controls.meet(&text)) {
                self.doomed = Some((at, self.pending));
            }
            let commits = matches!(kind, Some(b'S' | b'Q'));
            self.heard = commits && self.doomed.is_some();
            if self.heard && matches!(self.doomed, Some((CutAt::BeforeCommit, _))) {
                forward.extend_from_slice(if kind == Some(b'Q') { NOTHING } else { FLUSH });
            } else {
                forward.extend_from_slice(&message);
                self.pending += u32::from(commits);
            }
            if self.heard {
                break;
            }
        }
        forward
    }

    /// What of the server's whole messages the client gets, and whether that is the end.
    fn look_down(&mut self, buffer: &mut BytesMut) -> (BytesMut, bool) {
        let mut forward = BytesMut::new();
        while let Some((kind, message)) = take(buffer, true) {
            match (&mut self.doomed, kind) {
                // Complete, or refused: there is nothing to commit then.
                (Some((CutAt::BeforeCommit, 0)), Some(b'C' | b'E')) | (Some((CutAt::AfterCommit, 0)), Some(b'Z')) => {
                    return (forward, true);
                }
                (Some((_, 0)), _) => {}
                (doomed, kind) => {
                    if kind == Some(b'Z') {
                        self.pending = self.pending.saturating_sub(1);
                        if let Some((_, before)) = doomed {
                            *before -= 1;
                        }
                    }
                    forward.extend_from_slice(&message);
                }
            }
        }
        (forward, false)
    }
}

/// Takes a whole message, if there is one: its type, if it has one, and all its bytes.
fn take(buffer: &mut BytesMut, typed: bool) -> Option<(Option<u8>, Bytes)> {
    let head = usize::from(typed);
    let length = buffer.get(head..head + 4)?.get_u32() as usize;
    if buffer.len() < head + length {
        return None;
    }
    let message = buffer.split_to(head + length).freeze();
    Some((typed.then(|| message[0]), message))
}

/// The first two strings of a message: name and text of a `Parse`, portal and statement of a `Bind`.
fn strings(message: &[u8]) -> [String; 2] {
    let mut strings = message[5..].split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
    [(); 2].map(|()| strings.next().unwrap_or_default())
}
