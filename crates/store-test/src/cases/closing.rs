//! What is left of a transaction when it has ended (G3).

use oncekey_core::State;
use oncekey_store::{Claim, Closed, Ending, Replaces};

use crate::{TransactionFixture, fenced, samples, written};

/// Row and record are there, under the claim's token and with the store's own times.
pub async fn a_commit_leaves_row_and_record(f: TransactionFixture) {
    let claim = f.claim("k").await;
    let (_, open) = f.open(&claim).await;
    let closed = f.end(open, "row", Ending::Commit(samples::completed("done"))).await.expect("committed");
    let Closed::Recorded { expires, now } = closed else { panic!("expected Recorded, got {closed:?}") };
    assert_eq!(expires, now.after(claim.lifetimes.ttl));
    let found = f.base.found(&claim.identity).await;
    assert_eq!((f.rows.count("row").await, found.response), (1, Some(samples::response("done"))));
    let record = found.record;
    assert_eq!((record.state, record.token, record.owner), (State::Completed, claim.token, claim.owner));
    assert_eq!((record.attempts, record.response_status, record.fingerprint), (1, Some(201), claim.fingerprint));
    assert_eq!((record.times.expires, record.origin, record.lifetimes), (Some(expires), claim.origin, claim.lifetimes));
}

/// The record alone: the rows are rolled back to before the handler.
pub async fn an_answer_that_declined_leaves_the_record_alone(f: TransactionFixture) {
    let claim = f.claim("k").await;
    let (_, open) = f.open(&claim).await;
    let closed = f.end(open, "row", Ending::CommitRecord(samples::completed("no"))).await.expect("committed");
    assert!(matches!(closed, Closed::Recorded { .. }));
    let found = f.base.found(&claim.identity).await;
    assert_eq!((f.rows.count("row").await, found.response), (0, Some(samples::response("no"))));
}

async fn assert_free_again(f: &TransactionFixture, claim: &Claim) {
    assert!(f.base.read(&claim.identity).await.is_none());
    assert_eq!(f.rows.count("row").await, 0);
    let (attempt, open) = f.open_soon(&f.claim("k").await).await;
    f.end(open, "row", Ending::Commit(samples::completed("second"))).await.expect("committed");
    assert_eq!((attempt, f.rows.count("row").await), (1, 1), "as if nothing had been before");
}

/// Neither row nor record, and the next claim is a first one.
pub async fn a_rollback_leaves_neither(f: TransactionFixture) {
    let claim = f.claim("k").await;
    let (_, open) = f.open(&claim).await;
    let closed = f.end(open, "row", Ending::RollBack).await.expect("rolled back");
    assert!(matches!(closed, Closed::RolledBack));
    assert_free_again(&f, &claim).await;
}

/// A transaction that nobody ends, since its task was cut, is rolled back.
pub async fn what_is_dropped_is_rolled_back(f: TransactionFixture) {
    let claim = f.claim("k").await;
    let (_, open) = f.open(&claim).await;
    let handle = open.handle();
    drop(open);
    drop(handle);
    assert_free_again(&f, &claim).await;
}

/// What was there before stays as it was.
pub async fn a_rollback_leaves_the_record_that_was_to_be_replaced(f: TransactionFixture) {
    let first = f.base.claimed("acc-1", "k").await;
    written(&f.base.store.record(first.identity.id(), first.token, samples::failed()).await);
    let before = f.base.found(&first.identity).await.record;
    let replaces = Replaces { token: first.token, state: State::Failed, expired: false };
    for _ in 0..2 {
        let (attempt, open) = f.open(&samples::retry(&first.identity, f.base.owner().await, replaces)).await;
        assert_eq!(attempt, 2);
        f.end(open, "row", Ending::RollBack).await.expect("rolled back");
        assert_eq!(f.base.found(&first.identity).await.record, before);
    }
}

/// The record is no other claim's to change; and the same outcome again is written already.
pub async fn a_committed_record_is_its_claims(f: TransactionFixture) {
    let claim = f.claim("k").await;
    let id = claim.identity.id();
    let (_, open) = f.open(&claim).await;
    f.end(open, "row", Ending::Commit(samples::completed("done"))).await.expect("committed");
    let other = f.base.store.record(id, samples::token(), samples::completed("late")).await;
    assert_eq!(fenced(other).map(|found| found.record.token), Some(claim.token));
    written(&f.base.store.record(id, claim.token, samples::completed("done")).await);
    assert_eq!(f.base.found(&claim.identity).await.response, Some(samples::response("done")));
}

/// A large answer, as it was.
pub async fn a_large_answer_is_committed(f: TransactionFixture) {
    let claim = f.claim("k").await;
    let response = samples::with_body(vec![0xfe; 900 * 1024].into());
    let outcome = oncekey_store::Outcome { event: oncekey_core::Event::Complete, response: Some(response.clone()) };
    let (_, open) = f.open(&claim).await;
    f.end(open, "row", Ending::Commit(outcome)).await.expect("committed");
    assert_eq!(f.base.found(&claim.identity).await.response, Some(response));
}

/// The store's other work goes on while a transaction is open: claims, sweeps, heartbeats, listings.
pub async fn an_open_transaction_holds_up_nobody(f: TransactionFixture) {
    let (_, open) = f.open(&f.claim("k").await).await;
    let other = f.base.claimed("acc-1", "other").await;
    written(&f.base.store.record(other.identity.id(), other.token, samples::completed("other")).await);
    f.base.store.sweep(f.base.now(), 100).await.expect("swept");
    assert_eq!(f.base.store.list(&oncekey_store::Filter::default(), None, 10).await.expect("listed").records.len(), 1);
    f.end(open, "row", Ending::Commit(samples::completed("done"))).await.expect("committed");
    assert_eq!(f.rows.count("row").await, 1);
}
