//! How transactions begin and end when nothing goes wrong but the request.

use oncekey_core::State;
use oncekey_store::{Begun, Closed, Ending, Replaces, Store};
use oncekey_store_postgres::TransactionOptions;
use oncekey_store_test::{START, granted, samples, written};

use super::{Driver, Stage, Where, claim, everywhere, told};

everywhere! {
    rows_and_record_are_committed_together
    a_declined_answer_is_recorded_without_rows
    what_is_rolled_back_leaves_nothing
    what_is_dropped_leaves_nothing
    a_duplicate_finds_an_open_transaction_busy
    a_failure_is_attempted_again
    a_record_that_is_in_the_way_stays
    nothing_but_the_record_may_be_done
}

/// G3: both are there, and seen by the store beside.
async fn rows_and_record_are_committed_together(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let claim = claim("order");
    let (attempt, mut running) = stage.open(&claim).await;
    assert_eq!(attempt, 1);
    running.pay("order").await;
    assert_eq!((stage.state(&claim).await, stage.rows().await), (None, 0), "nothing is there before the end");
    let closed = running.commit().await;
    let Ok(Closed::Recorded { expires, now }) = closed else { panic!("{closed:?}") };
    assert_eq!((now, expires), (START, START.after(samples::LIFETIMES.ttl)));
    let found = stage.store.read(claim.identity.id()).await.expect("a reading").expect("a record");
    assert_eq!(found.record.state, State::Completed);
    assert_eq!(found.record.token, claim.token);
    assert_eq!(found.record.identity, claim.identity);
    assert_eq!(found.record.fingerprint, claim.fingerprint);
    assert_eq!(found.record.origin, claim.origin);
    assert_eq!((found.record.times.started, found.record.times.ended), (START, Some(START)));
    assert_eq!(found.response, samples::completed("done").response);
    assert_eq!((stage.rows().await, stage.torn().await), (1, 0));
}

async fn a_declined_answer_is_recorded_without_rows(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let claim = claim("order");
    let (_, mut running) = stage.open(&claim).await;
    running.pay("order").await;
    // Also when the answer was made of a statement that failed.
    running.handle.run("SELECT 1 / 0").await.expect_err("refused");
    let closed = running.end(Ending::CommitRecord(samples::completed("declined"))).await;
    assert!(matches!(closed, Ok(Closed::Recorded { .. })), "{closed:?}");
    assert_eq!((stage.state(&claim).await, stage.rows().await), (Some(State::Completed), 0));
}

async fn what_is_rolled_back_leaves_nothing(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let claim = claim("order");
    let (_, mut running) = stage.open(&claim).await;
    running.pay("order").await;
    let closed = running.end(Ending::RollBack).await;
    assert!(matches!(closed, Ok(Closed::RolledBack)), "{closed:?}");
    assert_eq!((stage.state(&claim).await, stage.rows().await), (None, 0));
    let (attempt, mut running) = stage.open(&claim).await;
    assert_eq!(attempt, 1);
    running.pay("order").await;
    assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
    assert_eq!(stage.torn().await, 0);
}

/// Also while a statement of it is running.
async fn what_is_dropped_leaves_nothing(driver: Driver, place: Where) {
    let stage = Stage::with(driver, place, 2, TransactionOptions::default()).await;
    let claim = claim("order");
    let (_, mut running) = stage.open(&claim).await;
    running.pay("order").await;
    drop(running);
    let mut running = stage.open_soon(&claim).await;
    running.pay("order").await;
    let sleeping =
        tokio::time::timeout(std::time::Duration::from_millis(50), running.handle.run("SELECT pg_sleep(600)"));
    assert!(sleeping.await.is_err(), "it is running");
    drop(running);
    let mut running = stage.open_soon(&claim).await;
    running.pay("order").await;
    assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
    assert_eq!((stage.rows().await, stage.torn().await), (1, 0));
}

/// W3: and holds no connection. Once the first has ended, it finds its record.
async fn a_duplicate_finds_an_open_transaction_busy(driver: Driver, place: Where) {
    let stage = Stage::with(driver, place, 2, TransactionOptions::default()).await;
    let first = claim("order");
    let (_, mut running) = stage.open(&first).await;
    running.pay("order").await;
    for _ in 0..20 {
        let begun = stage.transactions.begin(claim("order")).await;
        assert!(matches!(begun, Ok(Begun::Busy)), "{}", told(&begun));
    }
    let (_, other) = stage.open(&claim("other")).await;
    drop(other.end(Ending::RollBack).await.expect("an end"));
    assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
    let begun = stage.transactions.begin(claim("order")).await;
    let Ok(Begun::Held(found)) = begun else { panic!("{}", told(&begun)) };
    assert_eq!(found.record.token, first.token);
    assert_eq!(found.response, samples::completed("done").response);
}

async fn a_failure_is_attempted_again(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let first = claim("order");
    granted(&stage.store.claim(first.clone()).await);
    written(&stage.store.record(first.identity.id(), first.token, samples::failed()).await);
    let seen = Replaces { token: first.token, state: State::Failed, expired: false };
    let retry = samples::retry(&first.identity, samples::owner(), seen);
    let (attempt, mut running) = stage.open(&retry).await;
    assert_eq!(attempt, 2);
    running.pay("order").await;
    assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
    let found = stage.store.read(first.identity.id()).await.expect("a reading").expect("a record");
    assert_eq!((found.record.state, found.record.attempts), (State::Completed, 2));
    // Afresh where it had expired, and as a first one where it is gone.
    let seen = Replaces { token: retry.token, state: State::Completed, expired: true };
    let again = samples::retry(&first.identity, samples::owner(), seen);
    let (attempt, running) = stage.open(&again).await;
    assert_eq!(attempt, 1);
    stage.store.purge(first.identity.id()).await.expect("purged");
    assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
    let found = stage.store.read(first.identity.id()).await.expect("a reading").expect("a record");
    assert_eq!((found.record.token, found.record.attempts), (again.token, 1));
}

async fn a_record_that_is_in_the_way_stays(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let first = claim("order");
    granted(&stage.store.claim(first.clone()).await);
    let begun = stage.transactions.begin(claim("order")).await;
    assert!(matches!(&begun, Ok(Begun::Held(found)) if found.record.token == first.token), "{}", told(&begun));
    // One that was seen in another state, and one whose owner lives.
    let seen = Replaces { token: first.token, state: State::Failed, expired: false };
    let begun = stage.transactions.begin(samples::retry(&first.identity, samples::owner(), seen)).await;
    assert!(matches!(begun, Ok(Begun::Held(_))), "{}", told(&begun));
    stage.store.heartbeat(first.owner, samples::LIFETIMES.run).await.expect("a heartbeat");
    let seen = Replaces { token: first.token, state: State::Processing, expired: false };
    let begun = stage.transactions.begin(samples::retry(&first.identity, samples::owner(), seen)).await;
    assert!(matches!(begun, Ok(Begun::Held(_))), "{}", told(&begun));
}

/// A handler that never uses its transaction has its answer recorded all the same.
async fn nothing_but_the_record_may_be_done(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let claim = claim("order");
    let (_, running) = stage.open(&claim).await;
    assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
    assert_eq!(stage.state(&claim).await, Some(State::Completed));
}
