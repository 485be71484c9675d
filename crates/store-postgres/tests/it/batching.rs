//! Batches: what they cost, and that nobody in one pays for another's fault.

use std::sync::Arc;
use std::time::Duration;

use oncekey_store::{Claimed, Store, StoreError};
use oncekey_store_test::{granted, samples, written};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use crate::place::{OLD, clock, migrated, open, options};

/// A connection of the test's own, for looking behind the store and for standing in its way.
async fn raw(database: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(&OLD.url(database), NoTls).await.expect("connects");
    tokio::task::spawn_local(async move { drop(connection.await) });
    client
}

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.expect("a row").get(0)
}

/// A row that the server refuses (text with a NUL) fails alone, however full the batch that it is in.
#[tokio::test]
async fn what_the_server_refuses_fails_alone() {
    let database = migrated(&OLD).await;
    let store = Arc::new(open(&OLD.url(&database), clock()).await);
    let mut claims = JoinSet::new();
    for n in 0..100 {
        let mut claim = samples::claim(&samples::identity("acc-1", &format!("key-{n}")), samples::owner());
        if n % 33 == 5 {
            claim.origin.path = "/a\0b".into();
        }
        let store = store.clone();
        claims.spawn(async move { (n % 33 == 5, store.claim(claim).await) });
    }
    for (is_poison, answer) in claims.join_all().await {
        if is_poison {
            assert!(matches!(answer, Err(StoreError::NotApplied(_))), "{answer:?}");
        } else {
            granted(&answer);
        }
    }
}

/// A key that another transaction holds open is refused as not applied within the lock timeout, and its neighbours in the
/// batch are granted; once the row is let go, the same claim is granted too.
#[tokio::test]
async fn a_row_that_is_held_holds_up_nobody_else() {
    tokio::task::LocalSet::new()
        .run_until(async {
            let database = migrated(&OLD).await;
            let mut options = options(&OLD.url(&database)).with_clock(clock());
            options.lock_timeout = Duration::from_millis(200);
            let store = Arc::new(oncekey_store_postgres::PostgresStore::open(options).await.expect("opens"));
            let held = samples::claim(&samples::identity("acc-1", "held"), samples::owner());
            granted(&store.claim(held.clone()).await);
            let client = raw(&database).await;
            client.batch_execute("BEGIN; UPDATE idempotency_keys SET replays = 1").await.expect("a row lock");
            let outcome = store.record(held.identity.id(), held.token, samples::completed("x"));
            let others = async {
                let mut answers = Vec::new();
                for n in 0..20 {
                    let claim = samples::claim(&samples::identity("acc-1", &format!("key-{n}")), samples::owner());
                    granted(&store.claim(claim.clone()).await);
                    answers.push(store.record(claim.identity.id(), claim.token, samples::completed("y")).await);
                }
                answers
            };
            let (outcome, others) = tokio::join!(outcome, others);
            assert!(matches!(outcome, Err(StoreError::NotApplied(_))), "{outcome:?}");
            others.iter().for_each(|answer| _ = written(answer));
            client.batch_execute("ROLLBACK").await.expect("let go");
            written(&store.record(held.identity.id(), held.token, samples::completed("x")).await);
        })
        .await;
}

/// Two nodes that write the same records in other orders don't lose anything to deadlocks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_meet_on_the_same_records_all_get_an_answer() {
    let database = migrated(&OLD).await;
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for _ in 0..3 {
        stores.push(Arc::new(open(&OLD.url(&database), clock()).await));
    }
    let mut claims = JoinSet::new();
    for n in 0..600 {
        let key = format!("key-{}", (n * 7919) % 200);
        let claim = samples::claim(&samples::identity("acc-1", &key), samples::owner());
        let store = stores[n % 3].clone();
        claims.spawn(async move {
            let is_granted = matches!(store.claim(claim.clone()).await.expect("an answer"), Claimed::Granted { .. });
            if is_granted {
                written(&store.record(claim.identity.id(), claim.token, samples::failed()).await);
            }
            store.count_replays(&[(claim.identity.id(), 1)]).await.expect("counted");
            u32::from(is_granted)
        });
    }
    assert_eq!(claims.join_all().await.into_iter().sum::<u32>(), 200, "each key was granted once");
}

/// The outcome of a claim changes no indexed column and stays in its page (HOT); a hundred callers cost a few transactions.
#[tokio::test]
async fn a_claim_and_its_outcome_cost_little() {
    tokio::task::LocalSet::new()
        .run_until(async {
            let database = migrated(&OLD).await;
            let store = Arc::new(open(&OLD.url(&database), clock()).await);
            let client = raw(&database).await;
            let xid = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
            let before = count(&client, xid).await;
            let mut calls = JoinSet::new();
            for n in 0..200 {
                let store = store.clone();
                calls.spawn_local(async move {
                    let claim = samples::claim(&samples::identity("acc-1", &format!("key-{n}")), samples::owner());
                    granted(&store.claim(claim.clone()).await);
                    written(&store.record(claim.identity.id(), claim.token, samples::completed("an answer")).await);
                });
            }
            calls.join_all().await;
            let transactions = count(&client, xid).await - before;
            assert!(transactions < 100, "{transactions} transactions for 400 writes");
            // A record's versions share a page if the newest is where the index entry of the first points to.
            let sql = "SELECT count(*) FROM idempotency_keys WHERE status = 'completed'";
            assert_eq!(count(&client, sql).await, 200);
            let sql = "SELECT pg_stat_force_next_flush(), 0::bigint";
            client.query(sql, &[]).await.expect("flushed");
            let updated = "SELECT pg_stat_get_xact_tuples_updated('idempotency_keys'::regclass)";
            let _ = count(&client, updated).await;
            let entries = "SELECT count(*) FROM idempotency_keys_entries";
            let view = "CREATE EXTENSION IF NOT EXISTS pageinspect; CREATE VIEW idempotency_keys_entries AS \
                 SELECT * FROM generate_series(1, pg_relation_size('idempotency_keys_pkey') / 8192 - 1) AS block, \
                 LATERAL bt_page_stats('idempotency_keys_pkey', block) AS page, \
                 LATERAL bt_page_items('idempotency_keys_pkey', block) AS item WHERE page.type = 'l' \
                 AND (page.btpo_next = 0 OR item.itemoffset > 1)";
            client.batch_execute(view).await.expect("pageinspect");
            let entries = count(&client, entries).await;
            assert!(entries <= 210, "{entries} index entries for 200 records: outcomes left their pages");
        })
        .await;
}

/// A duplicate takes no transaction id and so waits for no disk.
#[tokio::test]
async fn a_duplicate_writes_nothing() {
    tokio::task::LocalSet::new()
        .run_until(async {
            let database = migrated(&OLD).await;
            let store = open(&OLD.url(&database), clock()).await;
            let claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
            granted(&store.claim(claim.clone()).await);
            let client = raw(&database).await;
            let xmax = "SELECT count(*) FROM pg_class, LATERAL (SELECT txid_current_if_assigned()) AS mine \
                        WHERE relname = 'idempotency_keys' AND mine IS NOT NULL";
            let _ = count(&client, xmax).await;
            let replays = "SELECT tup FROM (SELECT last_value AS tup FROM idempotency_claims) AS claims";
            let before = count(&client, replays).await;
            for _ in 0..10 {
                let again = samples::claim(&claim.identity, samples::owner());
                assert!(matches!(store.claim(again).await.expect("an answer"), Claimed::Held(_)));
            }
            let version = "SELECT count(*) FROM idempotency_keys WHERE xmax::text = '0'";
            assert_eq!(count(&client, version).await, 1, "not even a lock was taken on the record");
            assert!(count(&client, replays).await >= before);
        })
        .await;
}
