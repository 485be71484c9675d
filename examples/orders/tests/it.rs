//! The program as its README shows it, and killed again and again: an order is placed once, whatever happens.

#![expect(clippy::unwrap_used, reason = "a test's helper panics like the test itself")]

#[path = "it/kills.rs"]
mod kills;
#[path = "it/readme.rs"]
mod readme;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use oncekey_testkit::{Answer, Call, Client, Process};

const TEA: &str = r#"{"items":[{"sku":"tea","qty":2}],"amount":12.50,"currency":"EUR"}"#;

/// Starts the program in a folder, where its database is; `rules` are broken.
async fn start(folder: &Path, rules: &str) -> (Process, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-orders"));
    command.current_dir(folder).env("PORT", "0").env("ONCEKEYTEST_BREAK", rules);
    command.env_remove("DATABASE_URL").env_remove("IDEMPOTENCY_TTL_HOURS");
    let process = Process::start(&mut command).unwrap();
    let line = process.stderr().wait_for("listening on http://").await.unwrap();
    let address = line.rsplit('/').next().unwrap().parse().unwrap();
    (process, address)
}

fn order(account: &str, key: &str) -> Call {
    Call::post("/orders").scope(account).key(key).json(TEA)
}

async fn place(client: &Client, account: &str, key: &str) -> Answer {
    client.call(&order(account, key)).await.unwrap()
}

fn id(answer: &Answer) -> String {
    answer.json()["order_id"].as_str().unwrap().to_owned()
}

/// Orders, and completed records that stand for one, as another process sees them.
fn kept(folder: &Path) -> (i64, i64) {
    let connection = oncekey::sqlite::rusqlite::Connection::open(folder.join("orders.db")).unwrap();
    let counts = "SELECT (SELECT count(*) FROM orders), \
                  (SELECT count(*) FROM records WHERE state = 'completed' AND response_status = 201)";
    connection.query_row(counts, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}
