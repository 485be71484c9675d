//! Transactional mode on PostgreSQL, as handlers of axum use it, on a pool of few connections.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::routing::post;
use axum::{Router, response::Response};
use oncekey::postgres::{PgTransaction, PgTransactions, TransactionOptions};
use oncekey::protocol::policy::{Policy, Timing};
use oncekey::{Oncekey, Options, Route};
use oncekey_testkit::{Call, Client, PATIENCE, PostgresServer, Release};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const POOL: usize = 5;
const DUPLICATES: u32 = 500;

/// What the test and the application tell each other; a permit for each.
struct Signals {
    arrived: Semaphore,
    executing: Semaphore,
    go_on: Semaphore,
}

/// What is called slow goes on when it is told to.
async fn place(State(signals): State<Arc<Signals>>, tx: PgTransaction, what: String) -> Result<StatusCode, StatusCode> {
    let placed = tx.execute("INSERT INTO orders VALUES ($1)", &[&what]).await;
    placed.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    if what == "slow" {
        signals.executing.add_permits(1);
        signals.go_on.acquire().await.unwrap().forget();
    }
    Ok(StatusCode::CREATED)
}

fn order(account: &str, what: String) -> Call {
    Call::post("/orders").scope(account).key("order-1").body(what)
}

/// All that others do is done while the slow one is held open, though 500 ask for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_of_a_slow_request_hold_up_nobody() {
    let server = tokio::task::block_in_place(|| PostgresServer::start(Release::V15)).unwrap();
    let database = server.database().await.unwrap();
    server.execute(&database, "CREATE TABLE orders (what TEXT NOT NULL)").await.unwrap();
    let store = oncekey::postgres::open(&server.url(&database)).await.unwrap();
    let transactions = PgTransactions::open(&store, POOL, TransactionOptions::default()).await.unwrap();

    // The duplicates wait as long as it takes.
    let timing = Timing { wait: PATIENCE, ..Timing::default() };
    let route = Route {
        policy: Arc::new(Policy { timing, max_waiters: usize::MAX, ..Policy::default() }),
        ..Route::at("/orders")
    };
    let options = Options { routes: vec![route.within(Arc::new(transactions))], ..Options::default() };
    let oncekey = Oncekey::start(store, options).await.unwrap();
    let signals =
        Arc::new(Signals { arrived: Semaphore::new(0), executing: Semaphore::new(0), go_on: Semaphore::new(0) });
    let counting = signals.clone();
    let count = from_fn(move |request: Request, next: Next| {
        counting.arrived.add_permits(1);
        async move { Ok::<Response, StatusCode>(next.run(request).await) }
    });
    let app = Router::new().route("/orders", post(place)).layer(oncekey.layer()).layer(count);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = JoinSet::new();
    let app = app.with_state(signals.clone());
    serving.spawn(async move { axum::serve(listener, app).await.unwrap() });

    let mut slow = JoinSet::new();
    for _ in 0..=DUPLICATES {
        slow.spawn(async move { Client::new(address).call(&order("slow", "slow".to_owned())).await.unwrap() });
    }
    drop(signals.arrived.acquire_many(DUPLICATES + 1).await.unwrap());
    signals.executing.acquire().await.unwrap().forget();

    let mut others = JoinSet::new();
    for n in 0..50 {
        let call = order(&format!("acc-{n}"), format!("order of {n}"));
        others.spawn(async move { Client::new(address).call(&call).await.unwrap() });
    }
    for answer in others.join_all().await {
        assert_eq!((answer.status, answer.is_replay()), (StatusCode::CREATED, false), "{answer:?}");
    }
    assert!(slow.try_join_next().is_none(), "none of the 501 is answered");
    let look = "DO $$ BEGIN \
        ASSERT (SELECT count(*) FROM orders) = 50, 'the others are committed, and nothing else'; \
        ASSERT (SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%') = 1, 'one connection is held'; \
        END $$";
    server.execute(&database, look).await.unwrap();

    signals.go_on.add_permits(1);
    let answers = slow.join_all().await;
    assert!(answers.iter().all(|answer| answer.status == StatusCode::CREATED), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
    assert_eq!(signals.executing.available_permits(), 0, "executed once");
    let look = "DO $$ BEGIN ASSERT (SELECT count(*) FROM orders WHERE what = 'slow') = 1; END $$";
    server.execute(&database, look).await.unwrap();
    oncekey.shutdown().await;
}
