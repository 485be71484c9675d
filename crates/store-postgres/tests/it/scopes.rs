//! The index that counting goes by: there for those who count, and for nobody else.

use std::sync::Arc;

use oncekey_store::Store;
use oncekey_store_test::{granted, samples};
use tokio::task::JoinSet;

use crate::place::{OLD, POOLER, Raw, clock, migrated, open};

const VALID: &str =
    "SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass('idempotency_keys_scope') AND indisvalid";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_to_count_makes_the_index_and_the_others_find_it() {
    let database = migrated(&OLD).await;
    let raw = Raw::connect(&database).await;
    let store = open(&OLD.url(&database), clock()).await;
    let claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
    granted(&store.claim(claim.clone()).await);
    assert_eq!(raw.count(VALID).await, 0);
    let mut counts = JoinSet::new();
    for n in 0..4 {
        let url = if n % 2 == 0 { OLD.url(&database) } else { POOLER.url(&database) };
        let (store, claim) = (Arc::new(open(&url, clock()).await), claim.clone());
        counts.spawn(async move { store.count_scope(&claim.identity.namespace, &claim.identity.scope, 5).await });
    }
    for counted in counts.join_all().await {
        assert_eq!(counted.expect("what was there before is counted too"), 1);
    }
    assert_eq!(raw.count(VALID).await, 1);
}

/// What a build left behind that was broken off is made anew.
#[tokio::test]
async fn an_index_that_was_left_half_built_is_made_anew() {
    let database = migrated(&OLD).await;
    let raw = Raw::connect(&database).await;
    let store = open(&OLD.url(&database), clock()).await;
    let claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
    granted(&store.claim(claim.clone()).await);
    // A unique index that can't be built, since two records have the same: it stays behind, invalid.
    granted(&store.claim(samples::claim(&samples::identity("acc-1", "other"), samples::owner())).await);
    let broken = "CREATE UNIQUE INDEX CONCURRENTLY idempotency_keys_scope ON idempotency_keys (account_id)";
    raw.client.batch_execute(broken).await.expect_err("two records have that");
    let there = "SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass('idempotency_keys_scope')";
    assert_eq!((raw.count(there).await, raw.count(VALID).await), (1, 0));
    let counted = store.count_scope(&claim.identity.namespace, &claim.identity.scope, 5).await;
    assert_eq!(counted.expect("counted"), 2);
    assert_eq!(raw.count(VALID).await, 1);
}
