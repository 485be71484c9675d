//! How many claims and outcomes a second the store takes, at 1, 32 and 128 at once, and what CPU time they cost the server.
//!
//! `cargo run -p oncekey-store-postgres --release --example throughput [URL]`. Without a URL, PostgreSQL 15 is started for it, with
//! `fsync` on: then the disk of the temporary directory is measured.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a measurement prints, and reads a clock")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use oncekey_core::record::{Lifetimes, Origin};
use oncekey_core::response::RecordedBody;
use oncekey_core::{Event, Fingerprint, Identity, Key, Namespace, OwnerId, Recipe, RecordedResponse, Scope, Token};
use oncekey_store::{Claim, Outcome, Store};
use oncekey_store_postgres::{PostgresOptions, PostgresStore, migrate};
use oncekey_testkit::{PostgresServer, Release};
use tokio::task::JoinSet;

const ROUND: Duration = Duration::from_secs(5);

fn claim(number: usize) -> Claim {
    let bytes = (number as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes();
    Claim {
        identity: Identity {
            namespace: Namespace::default(),
            scope: Scope::new("header:X-Account-Id", &format!("acc-{}", number % 1000)).expect("a scope"),
            key: Key::from_decoded(&format!("{bytes:02x?}").replace([' ', ',', '[', ']'], "")).expect("a key"),
        },
        token: Token::from_bytes(bytes),
        owner: OwnerId::from_bytes([1; 16]),
        fingerprint: Fingerprint::from_parts([7; 32], Recipe::default()),
        origin: Origin { route: "/orders".into(), method: "POST".into(), path: "/orders".into() },
        lifetimes: Lifetimes {
            run: Duration::from_secs(630),
            ttl: Duration::from_hours(48),
            unknown_ttl: Duration::from_hours(720),
        },
        replaces: None,
    }
}

/// What each task does in its turn.
#[derive(Clone, Copy)]
enum Step {
    Claim,
    ClaimAndRecord,
    Held,
    Read,
}

async fn step(store: &PostgresStore, step: Step, number: usize, response: &Arc<RecordedResponse>) {
    let number = if matches!(step, Step::Held | Step::Read) { number % 1000 } else { number };
    let mut claim = claim(number);
    let (id, token) = (claim.identity.id(), claim.token);
    match step {
        Step::Read => assert!(store.read(id).await.expect("read").is_some()),
        Step::Held => {
            claim.token = Token::from_bytes([9; 16]);
            store.claim(claim).await.expect("held");
        }
        Step::Claim => {
            store.claim(claim).await.expect("granted");
        }
        Step::ClaimAndRecord => {
            store.claim(claim).await.expect("granted");
            let outcome = Outcome { event: Event::Complete, response: Some(response.clone()) };
            store.record(id, token, outcome).await.expect("recorded");
        }
    }
}

/// What all rounds need.
struct Stand {
    /// Unless it is another's.
    server: Option<PostgresServer>,
    store: Arc<PostgresStore>,
    next: Arc<AtomicUsize>,
}

impl Stand {
    fn server_time(&self) -> Duration {
        self.server.as_ref().map_or(Duration::ZERO, |server| server.cpu_time().expect("the server's times"))
    }
}

async fn round(name: &str, stand: &Stand, what: Step, tasks: usize) {
    let mut headers = http::HeaderMap::new();
    headers.insert("content-type", http::HeaderValue::from_static("application/json"));
    let body = RecordedBody::Stored(vec![b'x'; 600].into());
    let response = Arc::new(RecordedResponse {
        status: http::StatusCode::CREATED,
        headers,
        body,
        trailers: http::HeaderMap::new(),
        trace: None,
    });
    let (begun, worked) = (Instant::now(), stand.server_time());
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (store, next, response) = (stand.store.clone(), stand.next.clone(), response.clone());
        running.spawn(async move {
            let mut took = Vec::new();
            while begun.elapsed() < ROUND {
                let turn = Instant::now();
                step(&store, what, next.fetch_add(1, Ordering::Relaxed), &response).await;
                took.push(turn.elapsed());
            }
            took
        });
    }
    let mut took: Vec<Duration> = running.join_all().await.into_iter().flatten().collect();
    let worked = stand.server_time().saturating_sub(worked).as_micros() / took.len() as u128;
    took.sort_unstable();
    let rate = took.len() as u64 / ROUND.as_secs();
    let at = |part: usize| took[took.len() * part / 1000];
    println!(
        "{name:<18} {tasks:>4} tasks: {rate:>7}/s  p50 {:>9.1?}  p99 {:>9.1?}  max {:>9.1?}  server {worked:>4} µs each",
        at(500),
        at(990),
        took[took.len() - 1],
    );
}

#[tokio::main]
async fn main() {
    let server = match std::env::args().nth(1) {
        Some(_) => None,
        None => Some(PostgresServer::start_with(Release::V15, "fsync = on", &[]).expect("PostgreSQL 15 starts")),
    };
    let url = std::env::args().nth(1).or(server.as_ref().map(|server| server.url("postgres"))).expect("one of the two");
    let options = PostgresOptions::from_url(&url).expect("a URL");
    migrate(&options).await.expect("migrated");
    let store = Arc::new(PostgresStore::open(options).await.expect("the store opens"));
    // A number that no earlier run has used.
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let first = usize::try_from(since << 24).expect("an address has 64 bits");
    let next = Arc::new(AtomicUsize::new(first));
    let stand = Stand { server, store, next };
    let store = &stand.store;
    for number in 0..1000 {
        store.claim(claim(number)).await.expect("there");
    }
    for tasks in [1, 32, 128] {
        round("claim", &stand, Step::Claim, tasks).await;
        round("claim and record", &stand, Step::ClaimAndRecord, tasks).await;
        round("held", &stand, Step::Held, tasks).await;
        round("read", &stand, Step::Read, tasks).await;
    }
    println!("{:?}", store.stats().await.expect("stats"));
}
