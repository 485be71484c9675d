//! An operator's hands: resolve and purge (A3).

use oncekey_core::State;
use oncekey_store::{Purged, Replaces, Resolution, Resolved};

use crate::{Fixture, LEASE, granted, held, samples, written};

fn completed() -> Resolution {
    Resolution::Completed { response: samples::response("operator"), token: samples::token() }
}

/// `completed` on an unknown record: retries get the operator's answer, kept as long as any outcome.
pub async fn resolving_as_completed_gives_the_answer(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    let id = claim.identity.id();
    written(&f.store.record(id, claim.token, samples::written_off()).await);
    f.clock.advance(LEASE);
    let token = samples::token();
    let resolution = Resolution::Completed { response: samples::response("operator"), token };
    assert_eq!(f.other.resolve(id, resolution.clone()).await.expect("resolved"), Resolved::Done);
    let found = held(f.store.claim(samples::claim(&claim.identity, f.owner().await)).await);
    assert_eq!((found.record.state, found.record.token), (State::Completed, token));
    assert_eq!(found.record.response_status, Some(201));
    assert_eq!(found.record.times.ended, Some(f.now()));
    assert_eq!(found.record.times.expires, Some(f.now().after(claim.lifetimes.ttl)));
    assert_eq!(found.response, Some(samples::response("operator")));
    assert_eq!(f.store.resolve(id, resolution).await.expect("resolved"), Resolved::Done, "repeated, it is done");
}

/// `failed` on an unknown record: the next retry executes, as the next attempt.
pub async fn resolving_as_failed_lets_a_retry_run(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    let id = claim.identity.id();
    written(&f.store.record(id, claim.token, samples::written_off()).await);
    assert_eq!(f.store.resolve(id, Resolution::Failed).await.expect("resolved"), Resolved::Done);
    let record = f.found(&claim.identity).await.record;
    assert_eq!((record.state, record.token), (State::Failed, claim.token));
    assert_eq!(record.times.expires, Some(f.now().after(claim.lifetimes.ttl)));
    let replaces = Replaces { token: claim.token, state: State::Failed, expired: false };
    assert_eq!(granted(&f.store.claim(samples::retry(&claim.identity, claim.owner, replaces)).await), 2);
}

/// A lapsed claim counts as unknown and is resolved like it, swept or not.
pub async fn a_lapsed_claim_is_resolved_as_unknown(f: Fixture) {
    for (key, resolution, state) in
        [("completed", completed(), State::Completed), ("failed", Resolution::Failed, State::Failed)]
    {
        let claim = f.claimed("acc-1", key).await;
        f.clock.advance(LEASE);
        assert_eq!(f.store.resolve(claim.identity.id(), resolution).await.expect("resolved"), Resolved::Done);
        assert_eq!(f.found(&claim.identity).await.record.state, state);
    }
}

/// Anything but unknown is left as it is, and the refusal names the state.
pub async fn only_unknown_is_resolved(f: Fixture) {
    let outcomes = [
        (State::Processing, None),
        (State::Completed, Some(samples::completed("own"))),
        (State::Failed, Some(samples::failed())),
    ];
    for (state, outcome) in outcomes {
        let claim = f.claimed("acc-1", state.name()).await;
        let id = claim.identity.id();
        if let Some(outcome) = outcome {
            written(&f.store.record(id, claim.token, outcome).await);
        }
        let before = f.found(&claim.identity).await;
        for resolution in [completed(), Resolution::Failed] {
            assert_eq!(f.other.resolve(id, resolution).await.expect("answered"), Resolved::NotUnknown(state));
        }
        let after = f.found(&claim.identity).await;
        assert_eq!((after.record, after.response), (before.record, before.response));
    }
}

/// A record that isn't there or has expired isn't found.
pub async fn an_absent_record_is_not_resolved(f: Fixture) {
    let absent = samples::identity("acc-1", "absent").id();
    assert_eq!(f.store.resolve(absent, completed()).await.expect("answered"), Resolved::NotFound);
    let claim = f.claimed("acc-1", "k").await;
    let id = claim.identity.id();
    written(&f.store.record(id, claim.token, samples::written_off()).await);
    f.clock.advance(claim.lifetimes.unknown_ttl);
    assert_eq!(f.store.resolve(id, Resolution::Failed).await.expect("answered"), Resolved::NotFound);
    assert_eq!(f.found(&claim.identity).await.record.state, State::Unknown);
}

/// Any record but a running one is purged, with its answer, and the key starts afresh.
pub async fn purging_deletes(f: Fixture) {
    let outcomes = [samples::completed("x"), samples::failed(), samples::written_off()];
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let claim = f.claimed("acc-1", &format!("key-{n}")).await;
        let id = claim.identity.id();
        written(&f.store.record(id, claim.token, outcome).await);
        assert_eq!(f.other.purge(id).await.expect("purged"), Purged::Done);
        assert!(f.read(&claim.identity).await.is_none());
        assert_eq!(f.store.purge(id).await.expect("purged"), Purged::NotFound);
        assert_eq!(granted(&f.store.claim(samples::claim(&claim.identity, claim.owner)).await), 1);
        assert!(f.found(&claim.identity).await.response.is_none());
    }
}

/// A running record is purged only once its claim has lapsed.
pub async fn a_live_claim_is_not_purged(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    assert_eq!(f.other.purge(claim.identity.id()).await.expect("answered"), Purged::Live);
    assert_eq!(f.found(&claim.identity).await.record.state, State::Processing);
    f.clock.advance(LEASE);
    assert_eq!(f.other.purge(claim.identity.id()).await.expect("purged"), Purged::Done);
}
