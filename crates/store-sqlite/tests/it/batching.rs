//! Commits: few for many claims, none for nothing, and no waiting in a queue that is full.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use oncekey_store::{Store, StoreError};
use oncekey_store_test::{granted, held, samples, written};
use tokio::task::JoinSet;

use crate::place::{Place, clock};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_concurrent_claims_share_a_few_commits() {
    let place = Place::migrated();
    let store = Arc::new(place.open(clock()));
    // While another process holds the database, the claims gather.
    let other = place.raw();
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let mut claims = JoinSet::new();
    for n in 0..1000 {
        let store = store.clone();
        claims.spawn(async move {
            let claim = samples::claim(&samples::identity("acc-1", &format!("key-{n}")), samples::owner());
            granted(&store.claim(claim).await)
        });
    }
    other.execute_batch("COMMIT").expect("the lock is given back");
    assert_eq!(claims.join_all().await.len(), 1000);
    assert!(store.commits() <= 100, "{} commits for a thousand claims", store.commits());
}

#[tokio::test]
async fn what_changes_nothing_commits_nothing() {
    let place = Place::migrated();
    let store = place.open(clock());
    let claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
    granted(&store.claim(claim.clone()).await);
    written(&store.record(claim.identity.id(), claim.token, samples::completed("x")).await);
    assert_eq!(store.commits(), 2);
    held(store.claim(samples::claim(&claim.identity, claim.owner)).await);
    written(&store.record(claim.identity.id(), claim.token, samples::completed("x")).await);
    oncekey_store_test::fenced(store.record(claim.identity.id(), samples::token(), samples::failed()).await);
    store.sweep(oncekey_store_test::START, 10).await.expect("swept");
    store.count_replays(&[]).await.expect("counted");
    store.promise().await.expect("a promise");
    assert_eq!(store.commits(), 2);
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let place = Place::migrated();
    let mut options = place.options();
    options.queue = 1;
    let store = oncekey_store_sqlite::SqliteStore::open(options, clock()).expect("the database opens");
    let other = place.raw();
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let mut claims: FuturesUnordered<_> = (0..5)
        .map(|n| store.claim(samples::claim(&samples::identity("acc-1", &format!("key-{n}")), samples::owner())))
        .collect();
    // One with the writer, who waits for the lock, and one in the queue: no more than two are taken on.
    for _ in 0..3 {
        let refused = claims.next().await.expect("five answers");
        assert!(matches!(refused, Err(StoreError::NotApplied(_))), "{refused:?}");
    }
    other.execute_batch("COMMIT").expect("the lock is given back");
    while let Some(answer) = claims.next().await {
        assert!(answer.is_ok() || matches!(answer, Err(StoreError::NotApplied(_))), "{answer:?}");
    }
    let claim = samples::claim(&samples::identity("acc-1", "later"), samples::owner());
    assert_eq!(granted(&store.claim(claim).await), 1, "and it goes on");
}

#[tokio::test]
async fn a_database_that_stays_busy_applies_nothing() {
    let place = Place::migrated();
    let mut options = place.options();
    options.busy_timeout = std::time::Duration::from_millis(5);
    let store = oncekey_store_sqlite::SqliteStore::open(options, clock()).expect("the database opens");
    let other = place.raw();
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
    let refused = store.claim(claim.clone()).await;
    assert!(matches!(refused, Err(StoreError::NotApplied(_))), "{refused:?}");
    assert!(store.read(claim.identity.id()).await.expect("readers don't wait").is_none());
    other.execute_batch("COMMIT").expect("the lock is given back");
    assert_eq!(granted(&store.claim(claim).await), 1);
}

/// Neither of two processes that write without a break keeps the other from writing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_busy_processes_share_the_database() {
    let place = Place::migrated();
    let stores = [Arc::new(place.open(clock())), Arc::new(place.open(clock()))];
    let mut claims = JoinSet::new();
    for task in 0..16 {
        let store = stores[task % 2].clone();
        claims.spawn(async move {
            for n in 0..25 {
                let identity = samples::identity("acc-1", &format!("key-{task}-{n}"));
                assert_eq!(granted(&store.claim(samples::claim(&identity, samples::owner())).await), 1);
            }
        });
    }
    assert_eq!(claims.join_all().await.len(), 16);
    let counted: u64 = stores[0].stats().await.expect("stats").records.values().sum();
    assert_eq!(counted, 400);
}
