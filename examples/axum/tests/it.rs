//! The program as its README shows it: an order is placed once, also across a kill.

#![expect(clippy::unwrap_used, reason = "a test's helper panics like the test itself")]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use oncekey_testkit::{Call, Client, Process, TempDir};

async fn start(folder: &Path) -> (Process, Client) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-axum"));
    let process = Process::start(command.arg("127.0.0.1:0").arg(folder.join("orders.db"))).unwrap();
    let line = process.stderr().wait_for("listening on http://").await.unwrap();
    let address: SocketAddr = line.rsplit('/').next().unwrap().parse().unwrap();
    (process, Client::new(address))
}

#[tokio::test]
async fn an_order_is_placed_once_and_its_answer_survives_a_kill() {
    let folder = TempDir::new().unwrap();
    let (mut process, client) = start(folder.path()).await;
    let first = client.post("/orders", "acc-1", "order-7", "tea").await.unwrap();
    assert!(first.body.starts_with(b"order 1 placed by attempt 1 of "), "{first:?}");
    assert_eq!((first.status.as_u16(), first.is_replay()), (201, false));
    let again = client.post("/orders", "acc-1", "order-7", "tea").await.unwrap();
    assert_eq!((again.status, again.is_replay(), &again.body), (first.status, true, &first.body));
    let other = client.post("/orders", "acc-1", "order-7", "coffee").await.unwrap();
    assert_eq!((other.status.as_u16(), other.problem()), (409, Some("key-reused")));
    let keyless = client.call(&Call::post("/orders")).await.unwrap();
    assert_eq!(&keyless.body[..], b"order 2 placed\n");

    process.kill9().await.unwrap();
    let (_process, client) = start(folder.path()).await;
    let later = client.post("/orders", "acc-1", "order-7", "tea").await.unwrap();
    assert_eq!((later.is_replay(), &later.body), (true, &first.body));
}
