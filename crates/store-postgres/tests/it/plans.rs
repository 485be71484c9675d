//! Plans: on a table that grew since the server last looked at it, or that it never looked at, no statement of a request scans.

use std::sync::Arc;

use oncekey_store::Store;
use oncekey_store_test::{START, granted, samples, written};
use tokio::task::JoinSet;

use crate::place::{OLD, POOLER, Raw, clock, migrated, open};

const SCANS: &str = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'";
const UPDATES: &str = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'";

const FILL: &str = "INSERT INTO idempotency_keys SELECT decode(md5(n::text), 'hex'), 'default', 'static', 'filler', n::text, \
    'completed', '\\x00000000000000000000000000000000', '\\x00000000000000000000000000000000', nextval('idempotency_claims'), \
    sha256('x'), 'v1', '*', 'POST', '/', 1, 1, 1, now(), now(), now(), now(), now(), now(), NULL, 1, 0 \
    FROM generate_series(1, 5000) AS n";

/// A database whose table nobody analyses.
async fn unattended() -> (String, Raw) {
    let database = migrated(&OLD).await;
    OLD.execute(&database, "ALTER TABLE idempotency_keys SET (autovacuum_enabled = off)").await.expect("altered");
    let raw = Raw::connect(&database).await;
    (database, raw)
}

/// Every kind of a request's calls, on so many keys at once; each updates its record twice.
async fn requests(store: &Arc<dyn Store>, keys: std::ops::Range<u32>) {
    let mut calls = JoinSet::new();
    for n in keys {
        let store = store.clone();
        calls.spawn(async move {
            let claim = samples::claim(&samples::identity("acc-1", &format!("key-{n}")), samples::owner());
            granted(&store.claim(claim.clone()).await);
            store.claim(samples::claim(&claim.identity, samples::owner())).await.expect("held");
            store.peek(&[claim.identity.id()]).await.expect("peeked");
            written(&store.record(claim.identity.id(), claim.token, samples::completed("x")).await);
            store.read(claim.identity.id()).await.expect("read");
            store.count_replays(&[(claim.identity.id(), 1)]).await.expect("counted");
        });
    }
    calls.join_all().await;
}

/// Five thousand records in a table that was never analysed: requests on them, and a sweep, read by index only; directly, and
/// through PgBouncer. Counted by the server itself, as scans of the whole table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_never_scan_the_table() {
    for pooled in [false, true] {
        let (database, raw) = unattended().await;
        raw.client.batch_execute(FILL).await.expect("filled");
        // Making the indexes scanned the empty table.
        let before = raw.count(SCANS).await;
        let url = if pooled { POOLER.url(&database) } else { OLD.url(&database) };
        let store: Arc<dyn Store> = Arc::new(open(&url, clock()).await);
        requests(&store, 0..300).await;
        store.sweep(START, 1000).await.expect("swept");
        drop(store);
        raw.until(UPDATES, 600).await;
        assert_eq!(raw.count(SCANS).await, before, "scans of the whole table, pooled: {pooled}");
    }
}

/// Statements that were prepared on an empty table, of which the server knew that, and are used on five thousand records. The negative
/// control is such a statement without the session's settings: it scans.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_were_prepared_early_stay_good() {
    let (database, raw) = unattended().await;
    let store: Arc<dyn Store> = Arc::new(open(&OLD.url(&database), clock()).await);
    granted(&store.claim(samples::claim(&samples::identity("acc-1", "first"), samples::owner())).await);
    raw.client.batch_execute("VACUUM ANALYZE idempotency_keys").await.expect("analysed");
    // All that is prepared; counting replays isn't, and is free to scan a single record.
    let claim = samples::claim(&samples::identity("acc-1", "second"), samples::owner());
    granted(&store.claim(claim.clone()).await);
    store.peek(&[claim.identity.id()]).await.expect("peeked");
    written(&store.record(claim.identity.id(), claim.token, samples::completed("x")).await);
    store.read(claim.identity.id()).await.expect("read");
    let unguarded = Raw::connect(&database).await;
    let prepare = "SET plan_cache_mode = force_generic_plan; \
        PREPARE look (bytea[]) AS SELECT * FROM idempotency_keys WHERE id = ANY ($1); EXPLAIN EXECUTE look ('{}')";
    unguarded.client.batch_execute(prepare).await.expect("prepared");

    raw.client.batch_execute(FILL).await.expect("filled");
    let before = raw.count(SCANS).await;
    requests(&store, 0..300).await;
    drop(store);
    raw.until(UPDATES, 601).await;
    assert_eq!(raw.count(SCANS).await, before, "scans of the whole table");

    unguarded.client.batch_execute("EXECUTE look ('{}')").await.expect("executed");
    drop(unguarded);
    raw.until(SCANS, before + 1).await;
}

/// It has too many pages to be counted whole for the gauges: a sample of them is.
#[tokio::test]
async fn the_gauges_of_a_large_table_are_estimates() {
    let (database, raw) = unattended().await;
    raw.client.batch_execute(&FILL.replace("5000", "15000")).await.expect("filled");
    let store = open(&OLD.url(&database), clock()).await;
    let gauges = store.gauges().await.expect("gauges");
    assert!(gauges.stats.records["completed"].abs_diff(15_000) < 4_000, "{gauges:?}");
    assert_eq!((gauges.stats.records["processing"], gauges.oldest_processing), (0, None));
}
