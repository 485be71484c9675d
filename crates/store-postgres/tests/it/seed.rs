//! A table of the code that oncekey grew from is taken over in place; one of another shape is named, and left alone.

use std::time::Duration;

use oncekey_core::response::RecordedBody;
use oncekey_core::{Identity, Key, Namespace, RecordedResponse, Scope, State};
use oncekey_store::{Filter, Found, Store, StoreError};
use oncekey_store_postgres::{PostgresStore, SchemaError, migrate, migration_sql};
use oncekey_testkit::SEED_TABLE;

use crate::place::{OLD, POOLER, Raw, options};

fn identity(account: &str, key: &str) -> Identity {
    Identity {
        namespace: Namespace::default(),
        scope: Scope::new("header:X-Account-Id", account).expect("a scope"),
        key: Key::from_decoded(key).expect("a key"),
    }
}

/// A database with such a table and these rows: account, key, hash, state, status, body, and the expiry in hours from now.
async fn seeded(table: &str, rows: &str) -> String {
    let database = OLD.database().await.expect("a new database");
    let sql = format!(
        "{table}; INSERT INTO idempotency_keys (account_id, idempotency_key, request_hash, status, response_status, response_body, \
         created_at, expires_at) SELECT a, k, h, s, c, b::jsonb, now() - interval '1 hour', now() + e * interval '1 hour' \
         FROM (VALUES {rows}) AS rows (a, k, h, s, c, b, e)"
    );
    OLD.execute(&database, &sql).await.expect("a table of the seed's");
    database
}

/// One row of each kind.
fn rows() -> String {
    let hash = "ab".repeat(32);
    format!(
        "('acc-1', 'done', '{hash}', 'completed', 201, '{{\"b\": 1.0, \"a\": \"é\"}}', 24),
         ('acc-2', 'done', '{hash}', 'completed', 409, 'null', 24),
         ('acc-1', 'empty', '{hash}', 'completed', 204, NULL, 24),
         ('acc-1', 'bodiless', '{hash}', 'completed', 200, NULL, 24),
         ('acc-1', 'answerless', '{hash}', 'completed', NULL, NULL, 24),
         ('acc-1', 'running', '{hash}', 'processing', NULL, NULL, -2),
         ('acc-1', 'broken', '{hash}', 'failed', NULL, NULL, 24),
         ('acc-1', 'odd', 'md5', 'canceled', 500, '{{}}', 24),
         ('acc-1', 'old', '{hash}', 'completed', 201, '{{}}', -1),
         ('acc-1', 'a key', '{hash}', 'completed', 201, '{{}}', 24),
         ('ünïcode', 'done', '{hash}', 'failed', 500, '{{\"x\": 1}}', 24)"
    )
}

async fn found(store: &PostgresStore, account: &str, key: &str) -> Found {
    store.read(identity(account, key).id()).await.expect("readable").expect("a record")
}

fn body(found: &Found) -> Option<&[u8]> {
    match &found.response.as_deref()?.body {
        RecordedBody::Stored(bytes) => Some(bytes),
        RecordedBody::NotStored => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_rows_become_records_though_two_nodes_migrate_at_once() {
    let database = seeded(SEED_TABLE, &rows()).await;
    let (direct, pooled) = (options(&OLD.url(&database)), options(&POOLER.url(&database)));
    let (one, two) = tokio::join!(migrate(&direct), migrate(&pooled));
    assert_eq!((one.expect("migrated").to, two.expect("migrated").to), (3, 3));
    let store = PostgresStore::open(direct).await.expect("opens");
    assert_records(&store).await;
}

/// What is printed does the same, by hand.
#[tokio::test]
async fn what_is_printed_takes_it_over_as_well() {
    let database = seeded(SEED_TABLE, &rows()).await;
    OLD.execute(&database, &migration_sql()).await.expect("run by hand");
    assert_records(&PostgresStore::open(options(&OLD.url(&database))).await.expect("opens")).await;
}

async fn assert_records(store: &PostgresStore) {
    let done = found(store, "acc-1", "done").await;
    assert_eq!((done.record.state, done.record.response_status), (State::Completed, Some(201)));
    assert_eq!(done.record.fingerprint.recipe().to_string(), format!("seed {}", "ab".repeat(32)));
    assert_eq!(done.record.fingerprint.digest(), &[0xab; 32]);
    assert_eq!(body(&done), Some("{\"a\": \"é\", \"b\": 1.0}".as_bytes()));
    let response: &RecordedResponse = done.response.as_deref().expect("an answer");
    assert_eq!(response.headers["content-type"], "application/json");
    let left = done.record.times.expires.expect("an expiry").since(done.now);
    assert!(left > Duration::from_hours(23) && left <= Duration::from_hours(24), "{left:?}");
    assert_eq!(body(&found(store, "acc-2", "done").await), Some(&b"null"[..]));
    let empty = found(store, "acc-1", "empty").await;
    assert_eq!((body(&empty), empty.response.as_deref().map(|it| it.headers.len())), (Some(&b""[..]), Some(0)));
    assert_eq!(body(&found(store, "acc-1", "bodiless").await), None);
    for key in ["answerless", "running", "odd"] {
        let unknown = found(store, "acc-1", key).await;
        assert_eq!((unknown.record.state, &unknown.response), (State::Unknown, &None), "{key}");
        let left = unknown.record.times.expires.expect("an expiry").since(unknown.now);
        assert!(left > Duration::from_hours(29 * 24), "{key}: {left:?}");
    }
    let broken = found(store, "acc-1", "broken").await;
    assert_eq!((broken.record.state, &broken.response), (State::Failed, &None));
    assert_eq!(found(store, "ünïcode", "done").await.record.state, State::Failed);
    let listed = store.list(&Filter::default(), None, 100).await.expect("all can be read");
    assert_eq!(listed.records.len(), 10, "the row with a key that is none was left out");
    let swept = store.sweep(done.now, 100).await.expect("swept");
    assert_eq!((swept.deleted, swept.lapsed), (1, 0), "only the expired one goes");
}

#[tokio::test]
async fn other_spellings_of_its_table_are_taken_over_too() {
    for (from, to) in [
        ("BIGSERIAL", "UUID DEFAULT gen_random_uuid()"),
        ("    id BIGSERIAL PRIMARY KEY,\n", ""),
        ("VARCHAR(64)", "CHAR(64)"),
        ("    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),\n", ""),
        ("response_body JSONB", "response_body JSON"),
    ] {
        assert!(SEED_TABLE.contains(from), "{from}");
        let database = OLD.database().await.expect("a new database");
        let row = "INSERT INTO idempotency_keys (account_id, idempotency_key, request_hash, status, response_status, response_body, \
                   expires_at) VALUES ('acc-1', 'k', repeat('ab', 32), 'completed', 201, '{}', now() + interval '1 hour')";
        let sql = format!("{}; {row}", SEED_TABLE.replace(from, to));
        OLD.execute(&database, &sql).await.expect("a table of the seed's");
        migrate(&options(&OLD.url(&database))).await.unwrap_or_else(|error| panic!("{to}: {error}"));
        let store = PostgresStore::open(options(&OLD.url(&database))).await.expect("opens");
        assert_eq!(found(&store, "acc-1", "k").await.record.state, State::Completed, "{to}");
    }
    let renamed = SEED_TABLE.replace("response_status", "status_code");
    let database = OLD.database().await.expect("a new database");
    OLD.execute(&database, &renamed).await.expect("a table of the seed's");
    migrate(&options(&OLD.url(&database))).await.expect("migrated");
}

#[tokio::test]
async fn what_differs_is_named_and_nothing_is_changed() {
    for (from, to, said) in [
        (
            "request_hash VARCHAR(64) NOT NULL",
            "request_hash BYTEA NOT NULL",
            "its column request_hash is bytea, not text",
        ),
        (
            "    expires_at TIMESTAMPTZ",
            "    expires TIMESTAMPTZ",
            "of its column expires nothing is known; it has no column expires_at",
        ),
        ("response_body JSONB", "response_body JSONB, locked_by TEXT", "of its column locked_by nothing is known"),
        ("created_at TIMESTAMPTZ", "created_at TIMESTAMP", "its column created_at is timestamp without time zone"),
    ] {
        let table = SEED_TABLE.replace(from, to);
        assert_ne!(table, SEED_TABLE);
        let table = table.split("CREATE INDEX").next().expect("a table");
        let database = OLD.database().await.expect("a new database");
        OLD.execute(&database, table).await.expect("theirs");
        for error in [
            migrate(&options(&OLD.url(&database))).await.expect_err("refused"),
            PostgresStore::open(options(&OLD.url(&database))).await.expect_err("refused"),
        ] {
            let StoreError::Misconfigured(cause) = &error else { panic!("{error:?}") };
            assert!(matches!(cause.downcast_ref(), Some(SchemaError::Unlike { .. })), "{error:?}");
            assert!(cause.to_string().contains(said), "{cause}");
        }
        assert!(OLD.execute(&database, &migration_sql()).await.is_err(), "by hand it is refused as well");
        let raw = Raw::connect(&database).await;
        let tables = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'";
        assert_eq!(raw.count(tables).await, 1, "nothing of ours is there");
    }
}

/// A view on it would break: it is left alone, and the server says what depends on it.
#[tokio::test]
async fn what_others_depend_on_is_left_alone() {
    let database = OLD.database().await.expect("a new database");
    let view = format!("{SEED_TABLE}; CREATE VIEW pending AS SELECT * FROM idempotency_keys");
    OLD.execute(&database, &view).await.expect("theirs");
    let error = migrate(&options(&OLD.url(&database))).await.expect_err("refused");
    assert!(error.to_string().contains("depend"), "{error:?}");
    OLD.execute(&database, "SELECT response_body FROM pending").await.expect("still there");
}
