//! The program as its README shows it: order and answer are there together, also across kills.

#![expect(clippy::unwrap_used, reason = "a test's helper panics like the test itself")]

use std::net::SocketAddr;
use std::process::Command;

use oncekey_testkit::{Client, PATIENCE, PostgresServer, Process, Release};

async fn start(url: &str) -> (Process, Client) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-sqlx"));
    let process = Process::start(command.arg("127.0.0.1:0").arg(url)).unwrap();
    let line = process.stderr().wait_for("listening on http://").await.unwrap();
    let address: SocketAddr = line.rsplit('/').next().unwrap().parse().unwrap();
    (process, Client::new(address))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_and_answers_are_there_together() {
    let server = PostgresServer::start(Release::V15).unwrap();
    let database = server.database().await.unwrap();
    let url = server.url(&database);
    let (mut process, client) = start(&url).await;
    let first = client.post("/orders", "acc-1", "order-1", "tea").await.unwrap();
    assert_eq!((first.status.as_u16(), first.is_replay(), &first.body[..]), (201, false, &b"order 1: tea\n"[..]));
    let again = client.post("/orders", "acc-1", "order-1", "tea").await.unwrap();
    assert_eq!((again.status, again.is_replay(), &again.body), (first.status, true, &first.body));
    client.post("/orders", "acc-1", "order-2", "tea").await.unwrap();
    let refused = client.post("/orders", "acc-1", "order-3", "tea").await.unwrap();
    assert_eq!((refused.status.as_u16(), refused.is_replay()), (409, false));
    let refused = client.post("/orders", "acc-1", "order-3", "tea").await.unwrap();
    assert_eq!((refused.status.as_u16(), refused.is_replay()), (409, true));

    // Killed while an order waits for a row that is held: it left nothing, and its retry is the first to be executed.
    let held = "BEGIN; LOCK TABLE stock; SELECT pg_sleep(600)";
    let holding = server.execute(&database, held);
    let ordering = async {
        until_waiting(&server, &database, "wait_event = 'PgSleep'").await;
        let waiting = client.post("/orders", "acc-1", "order-4", "coffee");
        let killing = async {
            until_waiting(&server, &database, "wait_event_type = 'Lock'").await;
            process.kill9().await.unwrap();
            let release = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
            server.execute(&database, release).await.unwrap();
        };
        let (answer, ()) = tokio::join!(waiting, killing);
        answer.unwrap_err();
    };
    let (held, ()) = tokio::join!(holding, ordering);
    held.unwrap_err();
    let (_process, client) = start(&url).await;
    let answered = loop {
        let answered = client.post("/orders", "acc-1", "order-4", "coffee").await.unwrap();
        // 202: the server has not yet noticed that the first one is gone.
        if answered.status.as_u16() != 202 {
            break answered;
        }
    };
    assert_eq!((answered.status.as_u16(), answered.is_replay()), (201, false));
    let counts = "DO $$ BEGIN ASSERT (SELECT count(*) FROM orders) = 3; \
                  ASSERT (SELECT count(*) FROM idempotency_keys) = 4; \
                  ASSERT (SELECT pieces FROM stock WHERE sku = 'coffee') = 99; END $$";
    server.execute(&database, counts).await.unwrap();
}

/// Until a session of the database waits for that.
async fn until_waiting(server: &PostgresServer, database: &str, what: &str) {
    let waiting = format!(
        "DO $$ BEGIN ASSERT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND {what}); END $$"
    );
    let asking = async {
        while server.execute(database, &waiting).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap();
}
