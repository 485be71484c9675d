//! Plans: on a table that grew since the server last looked at it, or that it never looked at, no statement of a request scans.

use std::sync::Arc;

use oncekey_store::Store;
use oncekey_store_test::{START, granted, samples, written};
use tokio::task::JoinSet;

use crate::place::{OLD, Raw, clock, migrated, open};

const SCANS: &str = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'";

/// Five thousand records in a table that was never analysed: requests on them read by index only. Counted by the server itself,
/// as scans of the whole table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_never_scan_the_table() {
    let database = migrated(&OLD).await;
    OLD.execute(&database, "ALTER TABLE idempotency_keys SET (autovacuum_enabled = off)").await.expect("altered");
    let raw = Raw::connect(&database).await;
    let fill = "INSERT INTO idempotency_keys SELECT decode(md5(n::text), 'hex'), 'default', 'static', 'filler', n::text, \
        'completed', '\\x00000000000000000000000000000000', '\\x00000000000000000000000000000000', nextval('idempotency_claims'), \
        sha256('x'), 'v1', '*', 'POST', '/', 1, 1, 1, now(), now(), now(), now(), now(), now(), NULL, 1, 0 \
        FROM generate_series(1, 5000) AS n";
    raw.client.batch_execute(fill).await.expect("filled");
    // Making the indexes scanned the empty table.
    let before = raw.count(SCANS).await;
    let store = Arc::new(open(&OLD.url(&database), clock()).await);
    let mut calls = JoinSet::new();
    for n in 0..300 {
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
    let swept = store.sweep(START, 1000).await.expect("swept");
    assert_eq!((swept.deleted, swept.lapsed), (0, 0));
    drop(store);
    let updated = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'";
    raw.until(updated, 600).await;
    assert_eq!(raw.count(SCANS).await, before, "scans of the whole table");
}
