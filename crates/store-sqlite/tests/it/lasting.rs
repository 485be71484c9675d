//! What was acknowledged is there after the store is closed and opened again, and after it is dropped in a hurry.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use oncekey_core::State;
use oncekey_store::{AUDIT_LINES, AuditFilter, Clock, Filter, Store, Swept};
use oncekey_store_test::{LEASE, granted, held, samples, written};

use crate::place::{Place, clock};

#[tokio::test]
async fn records_outlive_the_store() {
    let place = Place::migrated();
    let clock = clock();
    let store = place.open(clock.clone());
    let owner = samples::owner();
    store.heartbeat(owner, LEASE).await.expect("a heartbeat");
    let done = samples::claim(&samples::identity("acc-1", "done"), owner);
    let running = samples::claim(&samples::identity("acc-1", "running"), owner);
    granted(&store.claim(done.clone()).await);
    granted(&store.claim(running.clone()).await);
    written(&store.record(done.identity.id(), done.token, samples::completed("x")).await);
    store.count_replays(&[(done.identity.id(), 4)]).await.expect("counted");
    drop(store);

    let store = place.open(clock);
    let found = held(store.claim(samples::claim(&done.identity, owner)).await);
    assert_eq!((found.record.state, found.record.replays), (State::Completed, 4));
    assert_eq!(found.response, Some(samples::response("x")));
    let found = held(store.claim(samples::claim(&running.identity, owner)).await);
    assert_eq!(found.record.token, running.token);
    assert!(found.owner_alive, "heartbeats are kept too");
}

#[tokio::test]
async fn dropping_finishes_what_was_handed_over() {
    let place = Place::migrated();
    let store = place.open(clock());
    for n in 0..100 {
        let claim = samples::claim(&samples::identity("acc-1", &format!("key-{n}")), samples::owner());
        let mut claiming = store.claim(claim);
        // Polled once, it is handed over; what becomes of the future doesn't matter then.
        assert!(poll_fn(|cx| Poll::Ready(claiming.as_mut().poll(cx).is_pending())).await);
    }
    drop(store);
    let listed = place.open(clock()).list(&Filter::default(), None, 1000).await.expect("listed");
    assert_eq!(listed.records.len(), 100);
}

#[tokio::test]
async fn closing_leaves_no_log_behind() {
    let place = Place::migrated();
    let store = place.open(clock());
    granted(&store.claim(samples::claim(&samples::identity("acc-1", "k"), samples::owner())).await);
    drop(store);
    let mut log = place.path().into_os_string();
    log.push("-wal");
    assert!(!std::path::Path::new(&log).exists());
}

/// Much more than fits into the log, while a long listing reads: the log is copied and used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_bounded() {
    let place = Place::migrated();
    let mut options = place.options();
    options.checkpoint_pages = 100;
    let store = Arc::new(oncekey_store_sqlite::SqliteStore::open(options, clock()).expect("the database opens"));
    for n in 0..60 {
        let claim = samples::claim(&samples::identity("acc-1", &format!("key-{n}")), samples::owner());
        granted(&store.claim(claim.clone()).await);
        let body = samples::with_body(vec![n; 200_000].into());
        let outcome = oncekey_store::Outcome { event: oncekey_core::Event::Complete, response: Some(body) };
        written(&store.record(claim.identity.id(), claim.token, outcome).await);
    }
    let mut log = place.path().into_os_string();
    log.push("-wal");
    let size = std::fs::metadata(&log).expect("a log").len();
    assert!(size < 4_000_000, "12 MB were written, and the log has {size} bytes");
}

/// Of too many lines the oldest go, a step at a time; what counts is how many were written after them.
#[tokio::test]
async fn a_trail_that_is_too_long_is_swept() {
    let place = Place::migrated();
    let (store, clock) = (place.open(clock()), clock());
    for call in ["first", "second", "third"] {
        store.note_sweep(Swept::default(), &samples::operator(call)).await.expect("noted");
    }
    let newest = i64::try_from(AUDIT_LINES).expect("a number") + 2;
    place.raw().execute("UPDATE audit SET no = ?1 WHERE call = 'third'", [newest]).expect("as if so many had come");
    while store.sweep(clock.now(), 1).await.expect("swept").more {}
    let left = store.audit(&AuditFilter::default(), None, 10).await.expect("listed").lines;
    assert_eq!(left.iter().map(|line| &*line.operator.call).collect::<Vec<_>>(), ["third"]);
}
