//! Claims that replace a record: another attempt, a fresh start, and what changed in between (E4, E5, E9).

use oncekey_core::State;
use oncekey_store::{Purged, Replaces};

use crate::{Fixture, LEASE, fenced, granted, held, samples, written};

/// A failed record is claimed again: the next attempt at the same operation.
pub async fn a_failed_record_is_attempted_again(f: Fixture) {
    let first = f.claimed("acc-1", "k").await;
    let id = first.identity.id();
    written(&f.store.record(id, first.token, samples::failed()).await);
    f.store.count_replays(&[(id, 3)]).await.expect("counted");
    let before = f.found(&first.identity).await.record;
    f.clock.advance(LEASE);

    let replaces = Replaces { token: first.token, state: State::Failed, expired: false };
    let second = samples::retry(&first.identity, f.owner().await, replaces);
    assert_eq!(granted(&f.other.claim(second.clone()).await), 2);
    let after = f.found(&first.identity).await;
    assert_eq!((after.record.state, after.record.token), (State::Processing, second.token));
    assert_eq!(after.record.owner, second.owner);
    assert_eq!((after.record.attempts, after.record.replays), (2, 3));
    assert_eq!(after.record.times.created, before.times.created);
    assert_eq!(after.record.times.started, f.now());
    assert_eq!(after.record.times.deadline, f.now().after(second.lifetimes.run));
    assert_eq!((after.record.times.ended, after.record.times.expires), (None, None));
    assert!(after.record.response_status.is_none() && after.response.is_none());
    assert_eq!(
        fenced(f.store.record(id, first.token, samples::completed("late")).await).map(|f| f.record.attempts),
        Some(2)
    );
}

/// Another attempt keeps the fingerprint and its recipe, under which the retry was compared (F9).
pub async fn another_attempt_keeps_the_fingerprint(f: Fixture) {
    let first = f.claimed("acc-1", "k").await;
    written(&f.store.record(first.identity.id(), first.token, samples::failed()).await);
    let replaces = Replaces { token: first.token, state: State::Failed, expired: false };
    let mut second = samples::retry(&first.identity, f.owner().await, replaces);
    second.fingerprint = oncekey_core::Fingerprint::from_parts([8; 32], oncekey_core::Recipe::default());
    granted(&f.store.claim(second).await);
    assert_eq!(f.found(&first.identity).await.record.fingerprint, first.fingerprint);
}

/// An expired record is replaced by a fresh one: nothing of the old is left.
pub async fn an_expired_record_is_replaced_afresh(f: Fixture) {
    let first = f.claimed("acc-1", "k").await;
    let id = first.identity.id();
    written(&f.store.record(id, first.token, samples::completed("old")).await);
    f.store.count_replays(&[(id, 3)]).await.expect("counted");
    f.clock.advance(first.lifetimes.ttl);

    let replaces = Replaces { token: first.token, state: State::Completed, expired: true };
    let mut second = samples::retry(&first.identity, f.owner().await, replaces);
    second.fingerprint = oncekey_core::Fingerprint::from_parts([8; 32], oncekey_core::Recipe::default());
    assert_eq!(granted(&f.store.claim(second.clone()).await), 1);
    let after = f.found(&first.identity).await;
    assert_eq!((after.record.attempts, after.record.replays), (1, 0));
    assert_eq!(after.record.times.created, f.now());
    assert_eq!(after.record.fingerprint, second.fingerprint);
    assert!(after.response.is_none(), "the old answer is gone");
}

/// The state the claimant saw has changed under the same token: a late outcome isn't overwritten.
pub async fn a_record_whose_state_changed_is_held(f: Fixture) {
    let first = f.claimed("acc-1", "k").await;
    let id = first.identity.id();
    written(&f.store.record(id, first.token, samples::written_off()).await);
    written(&f.store.record(id, first.token, samples::completed("late")).await);
    let replaces = Replaces { token: first.token, state: State::Unknown, expired: false };
    let found = held(f.store.claim(samples::retry(&first.identity, f.owner().await, replaces)).await);
    assert_eq!(found.record.state, State::Completed);
}

/// Someone else replaced the record in between: the token differs, the claim is held.
pub async fn a_record_whose_token_changed_is_held(f: Fixture) {
    let first = f.claimed("acc-1", "k").await;
    written(&f.store.record(first.identity.id(), first.token, samples::failed()).await);
    let replaces = Replaces { token: first.token, state: State::Failed, expired: false };
    let second = samples::retry(&first.identity, f.owner().await, replaces);
    let third = samples::retry(&first.identity, f.owner().await, replaces);
    assert_eq!(granted(&f.store.claim(second.clone()).await), 2);
    assert_eq!(granted(&f.other.claim(second.clone()).await), 2, "found again, not granted anew");
    assert_eq!(held(f.store.claim(third).await).record.token, second.token);
}

/// A claim judged lapsed whose owner came back is valid again, and isn't taken over (E1).
pub async fn a_claim_that_is_valid_again_is_held(f: Fixture) {
    let first = f.claimed("acc-1", "k").await;
    f.clock.advance(LEASE);
    let replaces = Replaces { token: first.token, state: State::Processing, expired: false };
    let second = samples::retry(&first.identity, f.owner().await, replaces);
    f.store.heartbeat(first.owner, LEASE).await.expect("a late heartbeat");
    assert_eq!(held(f.store.claim(second.clone()).await).record.token, first.token);
    f.clock.advance(LEASE);
    assert_eq!(granted(&f.store.claim(second).await), 2, "and it is, once it has lapsed");
}

/// Purged and claimed anew in between: the first claim's token is worth nothing any more.
pub async fn a_token_of_a_purged_record_is_fenced(f: Fixture) {
    let first = f.claimed("acc-1", "k").await;
    f.store.retire(first.owner).await.expect("retired");
    assert_eq!(f.store.purge(first.identity.id()).await.expect("purged"), Purged::Done);
    let second = f.claimed("acc-1", "k").await;
    let found = fenced(f.store.record(first.identity.id(), first.token, samples::completed("stale")).await);
    assert_eq!(found.map(|found| found.record.token), Some(second.token));
    assert_eq!(f.found(&first.identity).await.record.state, State::Processing);
}

/// The record to be replaced is gone: the claim is a first one.
pub async fn replacing_a_purged_record_starts_afresh(f: Fixture) {
    let first = f.claimed("acc-1", "k").await;
    written(&f.store.record(first.identity.id(), first.token, samples::failed()).await);
    assert_eq!(f.store.purge(first.identity.id()).await.expect("purged"), Purged::Done);
    let replaces = Replaces { token: first.token, state: State::Failed, expired: false };
    let second = samples::retry(&first.identity, f.owner().await, replaces);
    assert_eq!(granted(&f.store.claim(second).await), 1);
}
