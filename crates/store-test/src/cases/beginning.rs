//! What is in the way of a claim that is made in a transaction (G3).

use std::time::Duration;

use futures_util::future::join_all;
use oncekey_core::State;
use oncekey_store::{Begun, Closed, Ending, Replaces};

use crate::{TransactionFixture, granted, held, samples, written};

/// One at a time in a process, on any handle: the second is told at once, and the record tells nobody of the first.
pub async fn an_open_transaction_is_in_the_way(f: TransactionFixture) {
    let claim = f.claim("k").await;
    let (attempt, open) = f.open(&claim).await;
    assert_eq!(attempt, 1);
    let second = f.transactions.begin(f.claim("k").await).await.expect("an answer");
    assert!(matches!(second, Begun::Busy));
    assert!(f.base.read(&claim.identity).await.is_none(), "nothing is committed");
    let (_, other) = f.open(&f.claim("other").await).await;
    drop((open, other));
}

/// Another process sees it in the way, or loses against it at its end. Either way one commits.
pub async fn of_two_processes_one_commits(f: TransactionFixture) {
    let (first, second) = (f.claim("k").await, f.claim("k").await);
    let (_, open) = f.open(&first).await;
    let begun = f.elsewhere.begin(second).await.expect("an answer");
    let closed = f.end(open, "row", Ending::Commit(samples::completed("first"))).await.expect("committed");
    assert!(matches!(closed, Closed::Recorded { .. }));
    match begun {
        Begun::Busy => {}
        Begun::Open { transaction, .. } => {
            let closed = f.end(transaction, "row", Ending::Commit(samples::completed("second"))).await.expect("an end");
            assert!(
                matches!(closed, Closed::Again)
                    || matches!(&closed, Closed::Met(met) if met.record.token == first.token)
            );
        }
        Begun::Held(found) => panic!("nothing was committed, and {found:?} was in the way"),
    }
    assert_eq!((f.rows.count("row").await, f.base.found(&first.identity).await.record.token), (1, first.token));
}

/// However many try at once, on whatever handle.
pub async fn of_32_at_once_one_commits(f: TransactionFixture) {
    let mut claims = Vec::new();
    for _ in 0..32 {
        claims.push(f.claim("k").await);
    }
    let all = claims.into_iter().enumerate().map(|(number, claim)| {
        let f = &f;
        async move {
            let through = if number % 2 == 0 { &f.transactions } else { &f.elsewhere };
            let Begun::Open { transaction, .. } = through.begin(claim).await.expect("an answer") else { return false };
            let closed = f.end(transaction, "row", Ending::Commit(samples::completed("one"))).await.expect("an end");
            matches!(closed, Closed::Recorded { .. })
        }
    });
    let committed = join_all(all).await.into_iter().filter(|committed| *committed).count();
    assert_eq!((committed, f.rows.count("row").await), (1, 1));
}

/// Other records are in nobody's way.
pub async fn on_32_records_at_once_all_commit(f: TransactionFixture) {
    let all = (0..32).map(|number| {
        let f = &f;
        async move {
            let (_, open) = f.open(&f.claim(&format!("k-{number}")).await).await;
            f.end(open, "row", Ending::Commit(samples::completed("one"))).await.expect("committed")
        }
    });
    assert!(join_all(all).await.iter().all(|closed| matches!(closed, Closed::Recorded { .. })));
    assert_eq!(f.rows.count("row").await, 32);
}

/// It is found with its answer, by claims of either mode and on every handle.
pub async fn a_committed_record_is_in_the_way(f: TransactionFixture) {
    let first = f.claim("k").await;
    let (_, open) = f.open(&first).await;
    f.end(open, "row", Ending::Commit(samples::completed("first"))).await.expect("committed");
    let found = f.in_the_way(&f.claim("k").await).await;
    assert_eq!((found.record.token, found.response), (first.token, Some(samples::response("first"))));
    assert!(matches!(f.elsewhere.begin(f.claim("k").await).await, Ok(Begun::Held(_))));
    assert_eq!(held(f.base.store.claim(f.claim("k").await).await).record.token, first.token);
}

/// A claim of the other mode is durable, and is found as it is; what it becomes, too.
pub async fn a_claim_in_two_commits_is_in_the_way(f: TransactionFixture) {
    let first = f.base.claimed("acc-1", "k").await;
    let found = f.in_the_way(&f.claim("k").await).await;
    assert_eq!((found.record.token, found.record.state, found.owner_alive), (first.token, State::Processing, true));
    written(&f.base.store.record(first.identity.id(), first.token, samples::completed("first")).await);
    let found = f.in_the_way(&f.claim("k").await).await;
    assert_eq!((found.record.state, found.response), (State::Completed, Some(samples::response("first"))));
}

/// The next attempt at a failed operation, with the fingerprint that its retry was compared under (F9).
pub async fn a_failed_record_is_attempted_again_in_a_transaction(f: TransactionFixture) {
    let first = f.base.claimed("acc-1", "k").await;
    written(&f.base.store.record(first.identity.id(), first.token, samples::failed()).await);
    let replaces = Replaces { token: first.token, state: State::Failed, expired: false };
    let mut second = samples::retry(&first.identity, f.base.owner().await, replaces);
    second.fingerprint = oncekey_core::Fingerprint::from_parts([8; 32], oncekey_core::Recipe::default());
    let (attempt, open) = f.open(&second).await;
    assert_eq!(attempt, 2);
    f.end(open, "row", Ending::Commit(samples::completed("second"))).await.expect("committed");
    let record = f.base.found(&first.identity).await.record;
    assert_eq!((record.attempts, record.token, record.fingerprint), (2, second.token, first.fingerprint));
}

/// Nothing of the old record is left.
pub async fn an_expired_record_is_replaced_afresh_in_a_transaction(f: TransactionFixture) {
    let first = f.base.claimed("acc-1", "k").await;
    let id = first.identity.id();
    written(&f.base.store.record(id, first.token, samples::completed("old")).await);
    f.base.store.count_replays(&[(id, 3)]).await.expect("counted");
    f.base.clock.advance(first.lifetimes.ttl);
    let replaces = Replaces { token: first.token, state: State::Completed, expired: true };
    let (attempt, open) = f.open(&samples::retry(&first.identity, f.base.owner().await, replaces)).await;
    assert_eq!(attempt, 1);
    f.end(open, "row", Ending::Commit(samples::completed("new"))).await.expect("committed");
    let found = f.base.found(&first.identity).await;
    assert_eq!((found.record.attempts, found.record.replays), (1, 0));
    assert_eq!((found.record.times.created, found.response), (f.base.now(), Some(samples::response("new"))));
}

/// What the claimant saw isn't there any more: neither its state nor its token may have changed.
pub async fn a_record_that_changed_since_is_in_the_way(f: TransactionFixture) {
    let first = f.base.claimed("acc-1", "k").await;
    let id = first.identity.id();
    written(&f.base.store.record(id, first.token, samples::failed()).await);
    let replaces = Replaces { token: first.token, state: State::Failed, expired: false };
    let other = samples::retry(&first.identity, f.base.owner().await, replaces);
    granted(&f.base.store.claim(other.clone()).await);
    written(&f.base.store.record(id, other.token, samples::failed()).await);
    let owner = f.base.owner().await;
    let found = f.in_the_way(&samples::retry(&first.identity, owner, replaces)).await;
    assert_eq!(found.record.token, other.token);
    let unknown = Replaces { token: other.token, state: State::Unknown, expired: false };
    let found = f.in_the_way(&samples::retry(&first.identity, owner, unknown)).await;
    assert_eq!(found.record.state, State::Failed);
}

/// A claim that is given up while it is being made leaves nothing behind.
pub async fn what_is_given_up_while_it_begins_is_not_in_the_way(f: TransactionFixture) {
    let claim = f.claim("k").await;
    // Asked once, and dropped; or had at once, and dropped.
    drop(tokio::time::timeout(Duration::ZERO, f.transactions.begin(claim)).await);
    let (attempt, open) = f.open_soon(&f.claim("k").await).await;
    f.end(open, "row", Ending::Commit(samples::completed("one"))).await.expect("committed");
    assert_eq!((attempt, f.rows.count("row").await), (1, 1));
}
