//! The PostgreSQL server that all tests share, and a database for each.

use std::sync::LazyLock;

use oncekey_testkit::{PostgresServer, Release};

pub(crate) static SERVER: LazyLock<PostgresServer> =
    LazyLock::new(|| PostgresServer::start(Release::V15).expect("PostgreSQL 15 starts"));

/// The name of a new database.
pub(crate) async fn database() -> String {
    SERVER.database().await.expect("a new database")
}
