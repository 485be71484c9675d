//! Batches: what they cost, and that nobody in one pays for another's fault.

use std::sync::Arc;
use std::time::Duration;

use oncekey_store::{Claimed, Store, StoreError};
use oncekey_store_postgres::PostgresStore;
use oncekey_store_test::{granted, held, samples, written};
use tokio::task::JoinSet;

use crate::place::{OLD, Raw, clock, migrated, open, options};

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
    let database = migrated(&OLD).await;
    let mut options = options(&OLD.url(&database)).with_clock(clock());
    options.lock_timeout = Duration::from_millis(200);
    let store = PostgresStore::open(options).await.expect("opens");
    let held = samples::claim(&samples::identity("acc-1", "held"), samples::owner());
    granted(&store.claim(held.clone()).await);
    let raw = Raw::connect(&database).await;
    raw.client.batch_execute("BEGIN; UPDATE idempotency_keys SET replays = 1").await.expect("a row lock");
    // Both calls are handed over before the writer gets to run, and so are one batch.
    let claim = samples::claim(&samples::identity("acc-1", "free"), samples::owner());
    let free = samples::claim(&samples::identity("acc-1", "other"), samples::owner());
    granted(&store.claim(free.clone()).await);
    let (outcome, other, granted_meanwhile) = tokio::join!(
        store.record(held.identity.id(), held.token, samples::completed("x")),
        store.record(free.identity.id(), free.token, samples::completed("y")),
        store.claim(claim),
    );
    assert!(matches!(outcome, Err(StoreError::NotApplied(_))), "{outcome:?}");
    written(&other);
    granted(&granted_meanwhile);
    raw.client.batch_execute("ROLLBACK").await.expect("let go");
    written(&store.record(held.identity.id(), held.token, samples::completed("x")).await);
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

/// Two hundred callers at once cost a few commits: what waits is written together.
#[tokio::test]
async fn what_waits_is_committed_together() {
    let database = migrated(&OLD).await;
    let store = Arc::new(open(&OLD.url(&database), clock()).await);
    let raw = Raw::connect(&database).await;
    let mut claims = JoinSet::new();
    for n in 0..200 {
        let store = store.clone();
        claims.spawn(async move {
            let claim = samples::claim(&samples::identity("acc-1", &format!("key-{n}")), samples::owner());
            granted(&store.claim(claim.clone()).await);
            claim
        });
    }
    let claims = claims.join_all().await;
    let transactions = "SELECT count(DISTINCT xmin::text) FROM idempotency_keys";
    assert!(raw.count(transactions).await <= 10, "{} transactions for 200 claims", raw.count(transactions).await);
    let mut outcomes = JoinSet::new();
    for claim in claims {
        let store = store.clone();
        outcomes.spawn(async move {
            written(&store.record(claim.identity.id(), claim.token, samples::completed("an answer")).await);
        });
    }
    outcomes.join_all().await;
    assert!(raw.count(transactions).await <= 10, "{} transactions for 200 outcomes", raw.count(transactions).await);
}

/// The outcome of a claim changes no indexed column and stays within its page (HOT), so no index grows by it.
#[tokio::test]
async fn outcomes_leave_the_indexes_alone() {
    let database = migrated(&OLD).await;
    let store = open(&OLD.url(&database), clock()).await;
    for n in 0..100 {
        let claim = samples::claim(&samples::identity("acc-1", &format!("key-{n}")), samples::owner());
        granted(&store.claim(claim.clone()).await);
        written(&store.record(claim.identity.id(), claim.token, samples::completed("an answer")).await);
    }
    // The server learns of them when the store's connections end.
    drop(store);
    let raw = Raw::connect(&database).await;
    let updated = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'";
    raw.until(updated, 100).await;
    let within = "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'";
    assert!(raw.count(within).await >= 95, "{} of 100 outcomes stayed in their page", raw.count(within).await);
}

/// A duplicate leaves the record as it is, to the row's last bit: no lock on it, no transaction id, no wait for the disk.
#[tokio::test]
async fn a_duplicate_writes_nothing() {
    let database = migrated(&OLD).await;
    let store = open(&OLD.url(&database), clock()).await;
    let claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
    granted(&store.claim(claim.clone()).await);
    let raw = Raw::connect(&database).await;
    let row = "SELECT (ctid, xmin, xmax)::text FROM idempotency_keys";
    let before: String = raw.client.query_one(row, &[]).await.expect("a row").get(0);
    for _ in 0..10 {
        let again = samples::claim(&claim.identity, samples::owner());
        assert!(matches!(store.claim(again).await.expect("an answer"), Claimed::Held(_)));
    }
    let after: String = raw.client.query_one(row, &[]).await.expect("a row").get(0);
    assert_eq!(after, before);
}

/// Records that are read together: each caller gets its own, and one that is damaged fails alone.
#[tokio::test]
async fn what_is_read_together_reaches_whom_it_is_for() {
    let database = migrated(&OLD).await;
    let store = Arc::new(open(&OLD.url(&database), clock()).await);
    let identity = |n: usize| samples::identity("acc-1", &format!("key-{n}"));
    for n in 0..50 {
        granted(&store.claim(samples::claim(&identity(n), samples::owner())).await);
    }
    let raw = Raw::connect(&database).await;
    let damage = "UPDATE idempotency_keys SET recipe = 'none' WHERE idempotency_key IN ('key-7', 'key-33')";
    raw.client.batch_execute(damage).await.expect("damaged");
    let mut readings = JoinSet::new();
    for n in 0..200 {
        let (store, id) = (store.clone(), identity(n % 60).id());
        readings.spawn(async move { (n % 60, id, store.read(id).await) });
    }
    for (n, id, answer) in readings.join_all().await {
        match answer {
            Err(StoreError::Corrupt(_)) => assert!(n == 7 || n == 33, "{n}"),
            Ok(Some(found)) => assert!(found.record.identity.id() == id && n < 50 && n != 7 && n != 33, "{n}"),
            Ok(None) => assert!(n >= 50, "{n}"),
            Err(other) => panic!("{n}: {other:?}"),
        }
    }
}

/// While most claims are duplicates, the records are read first: those that are there take no claim number, and everything else
/// comes out as before.
#[tokio::test]
async fn duplicates_are_met_by_reading_once_they_are_many() {
    let database = migrated(&OLD).await;
    let store = open(&OLD.url(&database), clock()).await;
    let claim = |key: &str| samples::claim(&samples::identity("acc-1", key), samples::owner());
    let (mine, ended, damaged) = (claim("mine"), claim("ended"), claim("damaged"));
    for claim in [&mine, &ended, &damaged] {
        granted(&store.claim(claim.clone()).await);
    }
    written(&store.record(ended.identity.id(), ended.token, samples::completed("x")).await);
    let raw = Raw::connect(&database).await;
    let damage = "UPDATE idempotency_keys SET recipe = 'none' WHERE idempotency_key = 'damaged'";
    raw.client.batch_execute(damage).await.expect("damaged");
    let duplicate = async || held(store.claim(claim("ended")).await);
    for _ in 0..20 {
        duplicate().await;
    }

    let taken = "SELECT last_value FROM idempotency_claims";
    let before = raw.count(taken).await;
    for _ in 0..20 {
        assert_eq!(duplicate().await.response, Some(samples::response("x")));
    }
    let (fresh, own, corrupt) = (store.claim(claim("fresh")), store.claim(mine.clone()), store.claim(claim("damaged")));
    let (fresh, own, corrupt, met) = tokio::join!(fresh, own, corrupt, duplicate());
    granted(&fresh);
    granted(&own);
    assert!(matches!(corrupt, Err(StoreError::Corrupt(_))), "{corrupt:?}");
    assert_eq!(met.record.token, ended.token);
    assert_eq!(raw.count(taken).await, before + 1, "only the new record has a number");
    // And back again, once they are few.
    for n in 0..20 {
        granted(&store.claim(claim(&format!("new-{n}"))).await);
    }
    duplicate().await;
    assert_eq!(raw.count(taken).await, before + 22);
}
