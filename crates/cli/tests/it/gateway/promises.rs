//! What a PostgreSQL server lets the gateway promise: declared where it can't be read, and followed while it runs (G2, G4).

use std::sync::Arc;

use oncekey_testkit::{CountingUpstream, PostgresServer, Release, scratch_dir};
use tokio::task::spawn_blocking;

use super::stand::{Gateway, oncekey, order, until};

const REQUIRED: &str = "[defaults]\nrequire = \"at_most_once\"\n";

/// A server that promises all it can.
async fn server() -> Arc<PostgresServer> {
    let start = || PostgresServer::start_with(Release::V15, "fsync = on", &[]);
    Arc::new(spawn_blocking(start).await.expect("no panic").expect("starts"))
}

/// Sets something for the whole server, which runs on.
async fn set(server: &PostgresServer, sql: &str) {
    server.execute("postgres", sql).await.expect("set");
    server.execute("postgres", "SELECT pg_reload_conf()").await.expect("reloaded");
}

impl Gateway {
    /// Waits until the class in force is this one.
    async fn promises(&self, class: &str) {
        until(class, || async { (self.ask("/api/stats").await.json()["class"] == class).then_some(()) }).await;
        let metrics = String::from_utf8_lossy(&self.ask("/metrics").await.body).into_owned();
        assert!(metrics.contains(&format!("oncekey_promise_class{{class=\"{class}\"}} 1")), "{metrics}");
    }
}

/// The class falls under a gateway that requires more: a metric, a log line, and it goes on; and all of it comes back.
#[tokio::test]
async fn a_class_that_falls_while_a_gateway_runs_is_told_and_ends_nothing() {
    let (upstream, server) = (CountingUpstream::start().await, server().await);
    let store = server.url(&server.database().await.expect("a new database"));
    let gateway = Gateway::on_server(&store, &upstream.url(), REQUIRED).await;
    gateway.promises("at_most_once").await;

    set(&server, "ALTER SYSTEM SET synchronous_commit = off").await;
    gateway.promises("best_effort").await;
    let log = gateway.process.stderr().all();
    let fallen: Vec<_> = log.iter().filter(|line| line.contains("the store's promise has fallen")).collect();
    assert!(fallen.len() == 1 && fallen[0].contains("`synchronous_commit` is off"), "{log:?}");
    assert_eq!(gateway.send(&order("meanwhile")).await.status, 201);
    assert_eq!(gateway.ask("/readyz?store").await.status, 200);

    set(&server, "ALTER SYSTEM RESET synchronous_commit").await;
    gateway.promises("at_most_once").await;
    let log = gateway.process.stderr().all();
    assert!(log.iter().any(|line| line.contains("the store's promise has risen")), "{log:?}");
    assert!(gateway.send(&order("meanwhile")).await.is_replay());
    gateway.end().await;
}

/// A database, and the URL of a role that may not see whether its server has standbys.
async fn of_a_role_without_rights(server: &PostgresServer) -> (String, String) {
    let database = server.database().await.expect("a new database");
    let hide = "CREATE ROLE limited LOGIN; GRANT CREATE ON SCHEMA public TO limited; \
                REVOKE SELECT ON pg_stat_replication, pg_replication_slots FROM PUBLIC";
    server.execute(&database, hide).await.expect("hidden");
    let url = server.url(&database).replace("//postgres@", "//limited@");
    (database, url)
}

/// `serve` where it is to be refused: its exit code and what it says.
fn refused(store: &str, settings: &str) -> (Option<i32>, String) {
    let directory = scratch_dir().expect("a directory");
    let file = directory.path().join("oncekey.toml");
    std::fs::write(&file, settings).expect("written");
    let mut command = oncekey();
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", store]);
    let output = command.arg("--config").arg(&file).output().expect("oncekey runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn what_cannot_be_read_can_be_declared_and_is_shown_as_declared() {
    let (upstream, server) = (CountingUpstream::start().await, server().await);
    let (database, store) = of_a_role_without_rights(&server).await;
    let (code, stderr) = refused(&store, REQUIRED);
    assert_eq!(code, Some(64), "{stderr}");
    assert!(stderr.contains("pg_monitor, or declare `standbys`"), "{stderr}");

    let declared = format!("[declare]\nstandbys = \"none\"\nsynchronous_commit = \"on\"\n{REQUIRED}");
    let gateway = Gateway::on_server(&store, &upstream.url(), &declared).await;
    gateway.promises("at_most_once").await;
    let stats = gateway.ask("/api/stats").await.json();
    // What was read is not shown as declared.
    assert_eq!(stats["declared"], serde_json::json!({"standbys": "none"}), "{stats}");
    let metrics = String::from_utf8_lossy(&gateway.ask("/metrics").await.body).into_owned();
    assert!(metrics.contains("oncekey_promise_declared{setting=\"standbys\"} 1"), "{metrics}");
    let log = gateway.process.stderr().all();
    assert!(log.iter().any(|line| line.contains("`standbys` of the store is none, which was declared")), "{log:?}");
    let counted = gateway.operate(&["stats", "--config", gateway.config_file()]);
    assert!(String::from_utf8_lossy(&counted.stdout).contains("declared standbys"), "{counted:?}");
    gateway.end().await;

    // The control: a declaration that what can be read belies.
    let weaker = format!("ALTER DATABASE {database} SET synchronous_commit = off");
    server.execute(&database, &weaker).await.expect("set");
    let (code, stderr) = refused(&store, &declared);
    assert_eq!(code, Some(64), "{stderr}");
    assert!(stderr.contains("`synchronous_commit` is off"), "{stderr}");
}
