//! A database of its own for each test, and programs started on it.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::LazyLock;

use oncekey::sqlite::rusqlite;
use oncekey_testkit::{PostgresServer, Process, Release, TempDir};
use tokio_postgres::NoTls;

/// The oldest release, shared by tests that don't crash it.
static OLD: LazyLock<PostgresServer> = LazyLock::new(|| PostgresServer::start(Release::V15).unwrap());

/// The newest.
static NEW: LazyLock<PostgresServer> = LazyLock::new(|| PostgresServer::start(Release::V18).unwrap());

/// Where orders are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Sqlite,
    Postgres15,
    Postgres18,
}

/// Runs each case in each place.
macro_rules! everywhere {
    ($($case:ident)+) => {
        $(mod $case {
            use crate::site::{Place, everywhere};

            everywhere!(@ $case, sqlite, Place::Sqlite);
            everywhere!(@ $case, postgres_15, Place::Postgres15);
            everywhere!(@ $case, postgres_18, Place::Postgres18);
        })+
    };
    (@ $case:ident, $name:ident, $place:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            super::$case($place).await;
        }
    };
}
pub(crate) use everywhere;

/// A database, in which nothing is yet.
pub(crate) struct Site {
    folder: TempDir,
    /// PostgreSQL's.
    url: Option<String>,
}

impl Site {
    pub(crate) async fn new(place: Place) -> Self {
        let server = match place {
            Place::Sqlite => return Self { folder: TempDir::new().unwrap(), url: None },
            Place::Postgres15 => &OLD,
            Place::Postgres18 => &NEW,
        };
        Self::on(tokio::task::block_in_place(|| LazyLock::force(server))).await
    }

    pub(crate) async fn on(server: &PostgresServer) -> Self {
        let url = server.url(&server.database().await.unwrap());
        Self { folder: TempDir::new().unwrap(), url: Some(url) }
    }

    /// Starts the program.
    pub(crate) async fn start(&self) -> (Process, SocketAddr) {
        self.start_with(&[]).await
    }

    /// The same with variables of tests set: rules that it breaks, a place where it dies.
    pub(crate) async fn start_with(&self, variables: &[(&str, &str)]) -> (Process, SocketAddr) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_example-orders"));
        command.current_dir(self.folder.path()).env("PORT", "0").env_remove("IDEMPOTENCY_TTL_HOURS");
        command.env("DATABASE_URL", self.url.as_deref().unwrap_or_default()).envs(variables.iter().copied());
        let process = Process::start(&mut command).unwrap();
        let line = process.stderr().wait_for("listening on http://").await.unwrap();
        let address = line.rsplit('/').next().unwrap().parse().unwrap();
        (process, address)
    }

    /// Orders, and completed records that stand for one, as another process sees them at one moment.
    pub(crate) async fn kept(&self) -> (i64, i64) {
        let counts = |records| {
            format!(
                "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM {records} = 'completed' AND response_status = 201)"
            )
        };
        let Some(url) = &self.url else {
            let connection = rusqlite::Connection::open(self.folder.path().join("orders.db")).unwrap();
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            return connection.query_row(&counts("records WHERE state"), [], read).unwrap();
        };
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let sql = counts("idempotency_keys WHERE status");
        tokio::select! {
            row = client.query_one(&sql, &[]) => { let row = row.unwrap(); (row.get(0), row.get(1)) }
            ended = connection => panic!("the connection ended: {ended:?}"),
        }
    }
}
