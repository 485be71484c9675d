//! Prepared statements: used where the connection is the server's own, never through a pooler, and done without when lost.

use oncekey_store::{Claim, Store};
use oncekey_store_test::{granted, samples, written};
use oncekey_testkit::{CommitCutter, Pooler};
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::place::{OLD, clock, migrated, open};

const CLAIM: &str = "ON CONFLICT (id) DO NOTHING";
const OUTCOME: &str = "SET status = o.state";
const READ: &str = "WHERE k.id = ANY";

fn claim(key: &str) -> Claim {
    samples::claim(&samples::identity("acc-1", key), samples::owner())
}

async fn some_calls(store: &impl Store) {
    for n in 0..10 {
        let claim = claim(&format!("key-{n}"));
        granted(&store.claim(claim.clone()).await);
        written(&store.record(claim.identity.id(), claim.token, samples::completed("x")).await);
        store.read(claim.identity.id()).await.expect("read").expect("there");
    }
}

async fn connect(url: &str, driver: &mut JoinSet<()>) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connects");
    driver.spawn(async move { drop(connection.await) });
    client
}

/// Ten calls of a kind are parsed once by a server, and ten times behind a pooler.
#[tokio::test]
async fn statements_are_prepared_on_the_servers_own_connections_only() {
    let pooler = Pooler::start(&OLD).expect("PgBouncer starts");
    for (to, times) in [(OLD.address(), 1), (pooler.address(), 10)] {
        let (database, cutter) = (migrated(&OLD).await, CommitCutter::start(to).await);
        some_calls(&open(&cutter.url(&database), clock()).await).await;
        for statement in [CLAIM, OUTCOME, READ] {
            assert_eq!(cutter.statements(statement), 10, "{statement}");
            assert_eq!(cutter.parsed(statement), times, "{statement}");
        }
    }
}

/// What passes through PgBouncer leaves nothing in the server's sessions, which others get to use. The negative control shows that
/// named statements would fail there.
#[tokio::test]
async fn nothing_is_left_in_a_poolers_sessions() {
    let database = migrated(&OLD).await;
    let pooler = Pooler::start_with(&OLD, 2).expect("PgBouncer starts");
    some_calls(&open(&pooler.url(&database), clock()).await).await;
    let mut drivers = JoinSet::new();
    let [one, other] =
        [connect(&pooler.url(&database), &mut drivers).await, connect(&pooler.url(&database), &mut drivers).await];
    // Both of the server's connections at once.
    for client in [&one, &other] {
        client.batch_execute("BEGIN").await.expect("begun");
        let left = "SELECT (SELECT count(*) FROM pg_prepared_statements WHERE name <> '')::text || current_setting('enable_seqscan')";
        let row = client.query_typed(left, &[]).await.expect("a row");
        assert_eq!(row[0].get::<_, &str>(0), "0on");
    }
    for client in [&one, &other] {
        client.batch_execute("COMMIT").await.expect("ended");
    }

    let named = one.prepare("SELECT 1").await.expect("prepared on one of them");
    let is_lost = async |client: &Client| {
        let answer = client.query(&named, &[]).await;
        answer.is_err_and(|error| error.code() == Some(&SqlState::INVALID_SQL_STATEMENT_NAME))
    };
    // Each of the two at a time, while the other is held.
    other.batch_execute("BEGIN").await.expect("begun");
    let lost_by_one = is_lost(&one).await;
    one.batch_execute("BEGIN").await.expect("begun");
    other.batch_execute("COMMIT").await.expect("ended");
    let lost_by_other = is_lost(&other).await;
    assert!(lost_by_one || lost_by_other, "a named statement was met on both connections");
}

/// A table that is altered under a living store (its plans go stale, and a result changes its type) fails nobody.
#[tokio::test]
async fn statements_that_are_lost_are_sent_once_more() {
    let (database, cutter) = (migrated(&OLD).await, CommitCutter::start(OLD.address()).await);
    let store = open(&cutter.url(&database), clock()).await;
    some_calls(&store).await;
    let alter = "ALTER TABLE idempotency_keys ALTER COLUMN namespace TYPE varchar, ADD COLUMN later integer";
    OLD.execute(&database, alter).await.expect("altered");
    let before = cutter.statements(READ);
    for n in 0..10 {
        store.read(claim(&format!("key-{n}")).identity.id()).await.expect("read").expect("there");
    }
    // One was refused on its way, and sent again.
    assert_eq!(cutter.statements(READ), before + 11);
    granted(&store.claim(claim("later")).await);
}
