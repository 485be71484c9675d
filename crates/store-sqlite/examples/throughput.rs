//! How many claims and outcomes a second the store takes, at 1, 32 and 128 at once.
//!
//! `cargo run -p oncekey-store-sqlite --release --example throughput [DIRECTORY [CHECKPOINT_PAGES [QUOTA]]]`. The
//! directory (default: the present one) decides which disk is measured.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a measurement prints, and reads a clock")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use oncekey_core::record::{Lifetimes, Origin};
use oncekey_core::response::RecordedBody;
use oncekey_core::{Event, Fingerprint, Identity, Key, Namespace, OwnerId, Recipe, RecordedResponse, Scope, Token};
use oncekey_store::{Claim, Outcome, Store, SystemClock};
use oncekey_store_sqlite::{SqliteOptions, SqliteStore, migrate};
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

async fn step(store: &SqliteStore, step: Step, number: usize, response: &Arc<RecordedResponse>) {
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

async fn round(name: &str, store: &Arc<SqliteStore>, what: Step, tasks: usize, next: &Arc<AtomicUsize>) {
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
    let (begun, commits) = (Instant::now(), store.commits());
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (store, next, response) = (store.clone(), next.clone(), response.clone());
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
    took.sort_unstable();
    let rate = took.len() as u64 / ROUND.as_secs();
    let at = |part: usize| took[took.len() * part / 1000];
    println!(
        "{name:<18} {tasks:>4} tasks: {rate:>7}/s  p50 {:>9.1?}  p99 {:>9.1?}  max {:>9.1?}  {} commits",
        at(500),
        at(990),
        took[took.len() - 1],
        store.commits() - commits
    );
}

#[tokio::main]
async fn main() {
    let directory = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let path = directory.join(format!("throughput-{}.db", std::process::id()));
    let mut options = SqliteOptions::new(&path);
    if let Some(pages) = std::env::args().nth(2) {
        options.checkpoint_pages = pages.parse().expect("a number of pages");
    }
    migrate(&options).expect("a new database");
    let store = Arc::new(SqliteStore::open(options, Arc::new(SystemClock)).expect("the database opens"));
    // With anything as a third argument: as with a quota, whose index every claim then pays for.
    if std::env::args().nth(3).is_some() {
        let identity = claim(0).identity;
        store.count_scope(&identity.namespace, &identity.scope, 1).await.expect("counted");
    }
    let next = Arc::new(AtomicUsize::new(0));
    for tasks in [1, 32, 128] {
        round("claim", &store, Step::Claim, tasks, &next).await;
        round("claim and record", &store, Step::ClaimAndRecord, tasks, &next).await;
        round("held", &store, Step::Held, tasks, &next).await;
        round("read", &store, Step::Read, tasks, &next).await;
    }
    println!("{:?}", store.stats().await.expect("stats"));
    drop(store);
    for suffix in ["", "-wal", "-shm"] {
        let mut file = path.clone().into_os_string();
        file.push(suffix);
        let _ = std::fs::remove_file(file);
    }
}
