//! The memory of the counting upstream: who came, how often, and which gates are open.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::Options;
use crate::PATIENCE;

/// A request as the upstream got it.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its number among all requests, from 1.
    pub serial: u32,
    /// Its number among those with the same scope and key, from 1.
    pub execution: u32,
    /// The scope header's value; empty when absent.
    pub scope: String,
    /// The key header's value as it arrived; empty when absent.
    pub key: String,
    /// The method.
    pub method: Method,
    /// The request target as sent: path and query.
    pub target: String,
    /// All its header fields.
    pub headers: HeaderMap,
}

#[derive(Debug)]
pub(super) struct Book {
    options: Options,
    pages: Mutex<Pages>,
    arrived: watch::Sender<u32>,
    received: watch::Sender<u32>,
    refused: watch::Sender<u32>,
    effective: watch::Sender<u32>,
    /// Executions whose effect is still to come; they don't end with their connections.
    pending: Mutex<JoinSet<()>>,
    gates: Mutex<HashMap<String, watch::Sender<bool>>>,
}

#[derive(Debug, Default)]
struct Pages {
    executions: HashMap<(String, String), u32>,
    refused: HashSet<(String, String)>,
    effects: HashMap<(String, String), Vec<Arrival>>,
    asked: u32,
    arrivals: Vec<Arrival>,
    ledger: Option<File>,
}

impl Book {
    pub(super) fn open(options: Options) -> io::Result<Self> {
        let append = |path| File::options().create(true).append(true).open(path);
        let ledger = options.ledger.as_ref().map(append).transpose()?;
        Ok(Self {
            options,
            pages: Mutex::new(Pages { ledger, ..Pages::default() }),
            arrived: watch::Sender::new(0),
            received: watch::Sender::new(0),
            refused: watch::Sender::new(0),
            effective: watch::Sender::new(0),
            pending: Mutex::default(),
            gates: Mutex::default(),
        })
    }

    /// Counts a request. An error is the ledger's: an execution that can't be written down must not be answered.
    pub(super) fn arrive(&self, head: &Parts) -> io::Result<Arrival> {
        let (scope, key) = self.operation(head);
        let mut pages = self.pages.lock();
        let execution = pages.executions.entry((scope.clone(), key.clone())).or_default();
        *execution += 1;
        let arrival = Arrival {
            execution: *execution,
            serial: count(pages.arrivals.len() + 1),
            scope,
            key,
            method: head.method.clone(),
            target: head.uri.to_string(),
            headers: head.headers.clone(),
        };
        pages.arrivals.push(arrival.clone());
        let written = pages.ledger.as_mut().map_or(Ok(()), |ledger| ledger.write_all(arrival.ledger_line().as_bytes()));
        drop(pages);
        self.arrived.send_modify(|arrived| *arrived += 1);
        written.map(|()| arrival)
    }

    /// The scope and the key of a request.
    fn operation(&self, head: &Parts) -> (String, String) {
        let text = |name: &str| {
            let value = head.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            value.unwrap_or_default()
        };
        (text(&self.options.scope_header), text(&self.options.key_header))
    }

    pub(super) fn speaks_http2(&self) -> bool {
        self.options.http2
    }

    /// Whether a request that may be refused once is refused now: the first one with its scope and key is.
    pub(super) fn refuse(&self, head: &Parts) -> bool {
        let first = self.pages.lock().refused.insert(self.operation(head));
        if first {
            self.refused.send_modify(|refused| *refused += 1);
        }
        first
    }

    /// The first effect of a scope and key, which somebody asks about.
    pub(super) fn asked_about(&self, scope: &str, key: &str) -> Option<Arrival> {
        let mut pages = self.pages.lock();
        pages.asked += 1;
        pages.effects.get(&(scope.to_owned(), key.to_owned()))?.first().cloned()
    }

    /// Takes effect once the gate has opened, also if whoever waits here goes away. Gives the execution whose answer this one
    /// gets: its own, or that of the only effect.
    pub(super) async fn take_effect(self: &Arc<Self>, arrival: Arrival, gate: Option<String>) -> Arrival {
        let Some(gate) = gate else { return self.effect(arrival) };
        let (done, answer) = oneshot::channel();
        let (book, own) = (Arc::clone(self), arrival.clone());
        self.pending.lock().spawn(async move {
            book.pass_gate(&gate).await;
            let _ = done.send(book.effect(own)); // whoever waited may have gone
        });
        answer.await.unwrap_or(arrival)
    }

    fn effect(&self, arrival: Arrival) -> Arrival {
        let mut pages = self.pages.lock();
        let effects = pages.effects.entry((arrival.scope.clone(), arrival.key.clone())).or_default();
        if let Some(first) = effects.first().filter(|_| self.options.idempotent) {
            return first.clone();
        }
        effects.push(arrival.clone());
        drop(pages);
        self.effective.send_modify(|effective| *effective += 1);
        arrival
    }

    /// Notes that a request's body was read to its end.
    pub(super) fn body_received(&self) {
        self.received.send_modify(|received| *received += 1);
    }

    pub(super) fn executions(&self, scope: &str, key: &str) -> u32 {
        self.pages.lock().executions.get(&(scope.to_owned(), key.to_owned())).copied().unwrap_or(0)
    }

    pub(super) fn effects(&self, scope: &str, key: &str) -> u32 {
        self.pages.lock().effects.get(&(scope.to_owned(), key.to_owned())).map_or(0, |effects| count(effects.len()))
    }

    pub(super) fn asked(&self) -> u32 {
        self.pages.lock().asked
    }

    pub(super) async fn took_effect(&self, effects: u32) {
        reach(&self.effective, effects, "to take effect").await;
    }

    pub(super) fn total(&self) -> u32 {
        count(self.pages.lock().arrivals.len())
    }

    pub(super) fn arrivals(&self) -> Vec<Arrival> {
        self.pages.lock().arrivals.clone()
    }

    pub(super) async fn arrived(&self, requests: u32) {
        reach(&self.arrived, requests, "to arrive").await;
    }

    pub(super) async fn refused(&self, requests: u32) {
        reach(&self.refused, requests, "to be refused").await;
    }

    pub(super) fn bodies(&self) -> u32 {
        *self.received.borrow()
    }

    pub(super) async fn received(&self, requests: u32) {
        reach(&self.received, requests, "to be received whole").await;
    }

    pub(super) fn open_gate(&self, name: &str) {
        self.gate(name).send_replace(true);
    }

    /// Waits, without a limit of its own, until the test opens the gate.
    pub(super) async fn pass_gate(&self, name: &str) {
        let mut state = self.gate(name).subscribe();
        // The sender lives in this book, which the caller holds; so this is no error.
        let _ = state.wait_for(|open| *open).await;
    }

    fn gate(&self, name: &str) -> watch::Sender<bool> {
        self.gates.lock().entry(name.to_owned()).or_default().clone()
    }
}

/// The scope and the key whose effects a request asks about, if it is such a question.
pub(super) fn question(head: &Parts) -> Option<(&str, &str)> {
    let asked = head.uri.path().strip_prefix("/effects/").filter(|_| head.method == Method::GET)?;
    asked.split_once('/')
}

impl Arrival {
    fn ledger_line(&self) -> String {
        let Self { serial, execution, scope, key, .. } = self;
        let line = serde_json::json!({ "serial": serial, "execution": execution, "scope": scope, "key": key });
        format!("{line}\n")
    }
}

/// Waits for a counter; says what it was and how far it came when it doesn't get there.
async fn reach(counter: &watch::Sender<u32>, wanted: u32, what: &str) {
    let mut seen = counter.subscribe();
    let reached = tokio::time::timeout(PATIENCE, seen.wait_for(|count| *count >= wanted)).await;
    assert!(reached.is_ok(), "waited {PATIENCE:?} for {wanted} requests {what}, saw {}", *counter.borrow());
}

fn count(requests: usize) -> u32 {
    u32::try_from(requests).expect("a test sends fewer than 2^32 requests")
}
