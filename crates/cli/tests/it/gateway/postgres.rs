//! Gateways that share a PostgreSQL server: one execution among them, whichever of them is asked, killed, or cut off.

use std::process::Output;

use oncekey_testkit::{CountingUpstream, PostgresServer, Release, free_address};
use serde_json::Value;
use tokio::task::{JoinSet, spawn_blocking};

use super::stand::{Gateway, oncekey, order, until};
use crate::server::{self, SERVER};

/// The URL of a new database.
async fn database() -> String {
    SERVER.url(&server::database().await)
}

const SETTINGS: &str = "lease = \"1s\"\n[defaults]\nwait = \"20s\"\n";

fn run(arguments: &[&str]) -> Output {
    oncekey().args(arguments).output().expect("oncekey runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Two nodes that start at once on an empty database, and every key asked for twice on each: one execution, one answer.
#[tokio::test]
async fn two_nodes_execute_each_key_once() {
    let (upstream, store) = (CountingUpstream::start().await, database().await);
    let url = upstream.url();
    let (one, two) =
        tokio::join!(Gateway::on_server(&store, &url, SETTINGS), Gateway::on_server(&store, &url, SETTINGS));
    let mut clients = JoinSet::new();
    for n in 0..160 {
        let client = if n % 2 == 0 { one.client() } else { two.client() };
        clients.spawn(async move { (n / 4, client.call(&order(&format!("key-{}", n / 4))).await) });
    }
    let mut first = 0;
    for (key, answer) in clients.join_all().await {
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 201, "{key}: {answer:?}");
        first += usize::from(!answer.is_replay());
    }
    assert_eq!(first, 40);
    for n in 0..40 {
        assert_eq!(upstream.executions("acc-1", &format!("key-{n}")), 1);
    }
    assert_eq!(one.ask("/api/stats").await.json()["records"]["completed"], 40);
    one.end().await;
    two.end().await;
}

/// A duplicate that another node executes is woken by the outcome.
#[tokio::test]
async fn a_duplicate_waits_for_another_nodes_outcome() {
    let upstream = CountingUpstream::start().await;
    let database = server::database().await;
    let one = Gateway::on_server(&SERVER.url(&database), &upstream.url(), SETTINGS).await;
    let two = Gateway::on_server(&SERVER.url(&database), &upstream.url(), SETTINGS).await;
    let slow = order("slow").header("x-test-gate", "slow");
    // The server sees when the other node looks after a record for a waiter.
    let looked = "DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
        AND pid <> pg_backend_pid() AND query LIKE '%AS wanted%') LOOP \
        PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$";
    let asking = async {
        upstream.arrived(1).await;
        let (duplicate, ()) = tokio::join!(two.send(&slow), async {
            SERVER.execute(&database, looked).await.expect("it looks");
            upstream.open("slow");
        });
        duplicate
    };
    let (first, duplicate) = tokio::join!(one.send(&slow), asking);
    assert_eq!((first.status.as_u16(), first.is_replay()), (201, false));
    assert_eq!((duplicate.status.as_u16(), duplicate.is_replay()), (201, true));
    assert_eq!(duplicate.body, first.body);
    assert_eq!(upstream.executions("acc-1", "slow"), 1);
}

/// A node is killed while its upstream works: the other node never executes the key again, and says so.
#[tokio::test]
async fn what_a_killed_node_was_executing_is_unknown_to_the_others() {
    let (upstream, store) = (CountingUpstream::start().await, database().await);
    let mut one = Gateway::on_server(&store, &upstream.url(), SETTINGS).await;
    let two = Gateway::on_server(&store, &upstream.url(), SETTINGS).await;
    let slow = order("slow").header("x-test-gate", "slow");
    let client = one.client();
    let mut asking = JoinSet::new();
    let sent = slow.clone();
    asking.spawn(async move { client.call(&sent).await });
    upstream.arrived(1).await;
    one.process.kill9().await.expect("killed");
    let answer = two.send(&slow).await;
    assert_eq!((answer.status.as_u16(), answer.problem()), (504, Some("outcome-unknown")), "{answer:?}");
    upstream.open("slow");
    assert_eq!(upstream.executions("acc-1", "slow"), 1);
    let output = two.operate(&["records", "list", "--state", "unknown", "--json"]);
    let listed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let id = listed["records"][0]["id"].as_str().expect("an id").to_owned();
    let resolved = two.operate(&["records", "resolve", &id, "--as", "failed", "--yes"]);
    assert!(resolved.status.success(), "{}", text(&resolved.stderr));
    until("the execution after an operator's word", || async {
        (two.send(&order("slow")).await.status == 201).then_some(())
    })
    .await;
    assert_eq!(upstream.executions("acc-1", "slow"), 2);
}

/// The server goes away: nothing is executed (D1), the gateway stays, and goes on once the server is back.
#[tokio::test]
async fn without_its_store_a_gateway_executes_nothing_and_comes_back() {
    let server = spawn_blocking(|| PostgresServer::start(Release::V15)).await.expect("no panic").expect("starts");
    let server = std::sync::Arc::new(server);
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::on_server(&server.url("postgres"), &upstream.url(), SETTINGS).await;
    assert_eq!(gateway.send(&order("before")).await.status, 201);
    let stopped = server.clone();
    spawn_blocking(move || stopped.stop()).await.expect("no panic").expect("stopped");
    let answer = gateway.send(&order("during")).await;
    assert_eq!((answer.status.as_u16(), answer.problem()), (503, Some("store-unavailable")), "{answer:?}");
    assert_eq!(gateway.ask("/readyz").await.status, 200);
    assert_eq!(gateway.ask("/readyz?store").await.status, 503);
    assert_eq!(upstream.executions("acc-1", "during"), 0);
    let back = server.clone();
    spawn_blocking(move || back.restart()).await.expect("no panic").expect("back");
    let answer = until("an answer", || async {
        let answer = gateway.send(&order("during")).await;
        (answer.status == 201).then_some(answer)
    })
    .await;
    assert!(!answer.is_replay());
    assert_eq!(upstream.executions("acc-1", "during"), 1);
    let replay = gateway.send(&order("before")).await;
    assert_eq!((replay.status.as_u16(), replay.is_replay()), (201, true));
}

/// What `migrate` says and prints, and that no output of the program holds the password.
#[tokio::test]
async fn the_schema_is_made_and_printed_and_the_password_is_not() {
    let store = database().await.replace("postgres@", "postgres:s3cret@");
    let printed = run(&["migrate", "--store", &store, "--print-sql"]);
    assert!(printed.status.success() && text(&printed.stdout).contains("CREATE TABLE idempotency_keys ("));
    let stats = run(&["stats", "--store", &store]);
    assert_eq!(stats.status.code(), Some(69), "printing changed nothing: {}", text(&stats.stderr));
    for said in ["upgraded to 3", "version 3 is up to date"] {
        let migrated = run(&["migrate", "--store", &store]);
        assert!(migrated.status.success() && text(&migrated.stderr).contains(said), "{}", text(&migrated.stderr));
        assert!(!text(&migrated.stderr).contains("s3cret"));
    }
    assert!(run(&["stats", "--store", &store]).status.success());
    assert!(run(&["sweep", "--store", &store]).status.success());
    let sqlite = run(&["migrate", "--store", "sqlite:x.db", "--print-sql"]);
    assert_eq!(sqlite.status.code(), Some(64));
}

/// Each reason why a store can't be used has its exit code and names what is wrong.
#[tokio::test]
async fn a_server_that_cannot_be_used_ends_the_program_with_the_reason() {
    let foreign = server::database().await;
    SERVER.execute(&foreign, "CREATE TABLE idempotency_keys (id INTEGER)").await.expect("theirs");
    let nobody = free_address().expect("an address");
    let empty = database().await;
    for (store, code, said) in [
        (SERVER.url(&foreign), 64, "`idempotency_keys`"),
        (SERVER.url("no_such_database"), 64, "no_such_database"),
        (PostgresServer::url_by(nobody, "x"), 69, "connect"),
        (empty, 69, "oncekey migrate"),
    ] {
        let mut command = oncekey();
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", &store]);
        command.env("ONCEKEY_START_TIMEOUT", "0s").env("ONCEKEY_AUTO_MIGRATE", "false");
        let output = command.output().expect("oncekey runs");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{store}: {stderr}");
        assert!(stderr.contains(said), "{store}: {stderr}");
    }
}
