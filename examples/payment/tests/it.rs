//! The program as its README shows it, killed at each point of a payment and at any moment: a card is charged once.

#![expect(clippy::unwrap_used, reason = "a test's helper panics like the test itself")]

#[path = "it/kills.rs"]
mod kills;
#[path = "it/points.rs"]
mod points;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use oncekey_testkit::{Answer, Call, Client, PATIENCE, PostgresServer, Process, Release};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

static OLD: LazyLock<PostgresServer> = LazyLock::new(|| PostgresServer::start(Release::V15).unwrap());
static NEW: LazyLock<PostgresServer> = LazyLock::new(|| PostgresServer::start(Release::V18).unwrap());

/// A database and a provider, which outlive the program.
struct Stage {
    url: String,
    database: tokio_postgres::Client,
    _driver: JoinSet<()>,
    _provider: Process,
    provider: SocketAddr,
}

/// What is there of payments: charges, rows, rows that were settled once, completed records.
type Counts = [usize; 4];

impl Stage {
    async fn new(server: &PostgresServer, ignore_keys: bool) -> Self {
        let url = server.url(&server.database().await.unwrap());
        let (database, driver) = connect(&url).await;
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider"));
        command.arg("127.0.0.1:0").args(ignore_keys.then_some("ignore-keys"));
        let (process, provider) = listening(&mut command).await;
        Self { url, database, _driver: driver, _provider: process, provider }
    }

    async fn start(&self, lease: Duration) -> (Process, SocketAddr) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_example-payment"));
        command.env("PORT", "0").env("DATABASE_URL", &self.url).env("LEASE_MS", lease.as_millis().to_string());
        listening(command.env("PROVIDER_URL", format!("http://{}", self.provider))).await
    }

    /// The payments that the provider charged, one for each time.
    async fn charged(&self) -> Vec<i64> {
        let answer = Client::new(self.provider).call(&Call::get("/charges")).await.unwrap();
        answer.json().as_array().unwrap().iter().map(|charge| charge["payment"].as_i64().unwrap()).collect()
    }

    async fn counts(&self) -> Counts {
        let [rows, settled, records] = self.numbers().await;
        [self.charged().await.len(), rows, settled, records]
    }

    async fn numbers(&self) -> [usize; 3] {
        let counts = "SELECT (SELECT count(*) FROM payments), \
                      (SELECT count(*) FROM payments WHERE state = 'paid' AND settled = 1), \
                      (SELECT count(*) FROM idempotency_keys WHERE status = 'completed' AND response_status = 201)";
        let row = self.database.query_one(counts, &[]).await.unwrap();
        [0, 1, 2].map(|column| usize::try_from(row.get::<_, i64>(column)).unwrap())
    }

    /// A card that was charged twice for one payment.
    async fn charged_twice(&self) -> Option<i64> {
        let mut seen = BTreeSet::new();
        self.charged().await.into_iter().find(|payment| !seen.insert(*payment))
    }

    /// Until the provider has charged something.
    async fn until_charged(&self) {
        let asking = async {
            while self.charged().await.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.unwrap();
    }

    /// Until a question to the database is answered with yes.
    async fn until(&self, question: &str) {
        let asking = async {
            while !self.database.query_one(question, &[]).await.unwrap().get::<_, bool>(0) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.expect(question);
    }
}

async fn connect(url: &str) -> (tokio_postgres::Client, JoinSet<()>) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let mut driver = JoinSet::new();
    driver.spawn(async move { drop(connection.await) });
    (client, driver)
}

async fn listening(command: &mut Command) -> (Process, SocketAddr) {
    let process = Process::start(command).unwrap();
    let line = process.stderr().wait_for("listening on http://").await.unwrap();
    let address = line.rsplit('/').next().unwrap().parse().unwrap();
    (process, address)
}

fn payment(key: &str, card: &str) -> Call {
    let order = format!(r#"{{"amount":1250,"card":"{card}"}}"#);
    Call::post("/payments").scope("acc-1").key(key).json(order)
}

/// As a client does that got no answer: again and again with the same key.
async fn pay(address: SocketAddr, key: &str, card: &str) -> Answer {
    let client = Client::new(address);
    let asking = async {
        loop {
            let answer = client.call(&payment(key, card)).await.unwrap();
            match answer.status.as_u16() {
                202 | 503 | 504 => tokio::time::sleep(Duration::from_millis(20)).await,
                _ => return answer,
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_is_made_once_and_what_the_provider_decided_is_kept() {
    let stage = Stage::new(&OLD, false).await;
    let (_process, address) = stage.start(Duration::from_secs(5)).await;
    let client = Client::new(address);
    let first = client.call(&payment("pay-1", "visa")).await.unwrap();
    assert_eq!((first.status.as_u16(), &first.body[..]), (201, &br#"{"payment":1,"charge":"ch_1"}"#[..]));
    let again = client.call(&payment("pay-1", "visa")).await.unwrap();
    assert_eq!((again.is_replay(), &again.body), (true, &first.body));
    for replay in [false, true] {
        let declined = client.call(&payment("pay-2", "declined")).await.unwrap();
        assert_eq!((declined.status.as_u16(), declined.is_replay()), (402, replay));
    }
    // It failed and said nothing of the charge: nobody knows, and a retry calls again.
    let failed = client.call(&payment("pay-3", "fails")).await.unwrap();
    assert_eq!(failed.status, 504);
    assert_eq!(pay(address, "pay-3", "fails").await.status, 201);
    assert_eq!(
        client.call(&Call::post("/payments").scope("acc-1").json("{}")).await.unwrap().problem(),
        Some("key-missing")
    );
    assert_eq!(stage.counts().await, [2, 3, 2, 2]);
}
