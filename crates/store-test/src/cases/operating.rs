//! An operator's hands: resolve and purge (A3).

use std::time::Duration;

use oncekey_core::State;
use oncekey_store::{Acted, Deed, Filter, Order, Purged, Replaces, Resolution, Resolved, StoreError, TOGETHER};

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

/// One order meets records in every state; each gets its own answer, in their order, and no other's fate.
pub async fn an_order_says_of_each_record_what_became_of_it(f: Fixture) {
    let unknown = f.claimed("acc-1", "unknown").await;
    written(&f.store.record(unknown.identity.id(), unknown.token, samples::written_off()).await);
    let done = f.claimed("acc-1", "completed").await;
    written(&f.store.record(done.identity.id(), done.token, samples::completed("own")).await);
    let running = f.claimed("acc-1", "running").await;
    let absent = samples::identity("acc-1", "absent").id();
    let ids = [absent, running.identity.id(), unknown.identity.id(), done.identity.id()];
    let resolved = f.other.operate(&ids, &samples::order(Deed::Resolve(completed()))).await.expect("carried out");
    let not = Acted::NotUnknown;
    assert_eq!(resolved, [Acted::NotFound, not(State::Processing), Acted::Done, not(State::Completed)]);
    let found = f.found(&unknown.identity).await;
    assert_eq!((found.record.state, found.response), (State::Completed, Some(samples::response("operator"))));
    assert_eq!(f.found(&done.identity).await.response, Some(samples::response("own")));

    let purged = f.other.operate(&ids, &samples::order(Deed::Purge)).await.expect("carried out");
    assert_eq!(purged, [Acted::NotFound, Acted::Live, Acted::Done, Acted::Done]);
    assert_eq!(f.found(&running.identity).await.record.state, State::Processing);
    assert!(f.read(&unknown.identity).await.is_none() && f.read(&done.identity).await.is_none());
    assert_eq!(f.store.operate(&[], &samples::order(Deed::Purge)).await.expect("carried out"), []);
}

/// What was tried again since it was looked for, or is another state's by now, is left as it is.
pub async fn an_order_spares_what_no_longer_matches(f: Fixture) {
    let older_than = Some(Duration::from_mins(5));
    let old_failed =
        Filter { scope: Some("acc-1".into()), state: Some(State::Failed), older_than, ..Filter::default() };
    let purge = Order { only: Some(old_failed), ..samples::order(Deed::Purge) };
    let mut ids = Vec::new();
    for (scope, key) in [("acc-1", "again"), ("acc-1", "still"), ("acc-1", "ended"), ("acc-2", "other")] {
        let claim = f.claimed(scope, key).await;
        written(&f.store.record(claim.identity.id(), claim.token, samples::failed()).await);
        ids.push(claim.identity.id());
    }
    f.clock.advance(Duration::from_mins(10));
    for (key, outcome) in [("again", samples::failed()), ("ended", samples::completed("late"))] {
        let identity = samples::identity("acc-1", key);
        let seen = f.found(&identity).await.record;
        let replaces = Replaces { token: seen.token, state: seen.state, expired: false };
        let retry = samples::retry(&identity, f.owner().await, replaces);
        granted(&f.store.claim(retry.clone()).await);
        written(&f.store.record(identity.id(), retry.token, outcome).await);
    }
    let acted = f.store.operate(&ids, &purge).await.expect("carried out");
    assert_eq!(acted, [Acted::Unmatched, Acted::Done, Acted::Unmatched, Acted::Unmatched]);
    assert_eq!(f.found(&samples::identity("acc-1", "again")).await.record.attempts, 2);
}

/// More records than one transaction should hold up are refused, and nothing is done to any.
pub async fn an_order_is_bounded(f: Fixture) {
    let mut ids = Vec::new();
    for n in 0..=TOGETHER {
        let claim = f.claimed("acc-1", &format!("k-{n}")).await;
        written(&f.store.record(claim.identity.id(), claim.token, samples::failed()).await);
        ids.push(claim.identity.id());
    }
    let refused = f.store.operate(&ids, &samples::order(Deed::Purge)).await;
    assert!(matches!(refused, Err(StoreError::NotApplied(_))), "{refused:?}");
    let done = f.store.operate(&ids[1..], &samples::order(Deed::Purge)).await.expect("carried out");
    assert_eq!(done, vec![Acted::Done; TOGETHER]);
    assert!(f.read(&samples::identity("acc-1", "k-0")).await.is_some(), "the refused order did nothing");
}

/// While two operators purge and claims end, each record is purged once or was left, and every call is answered.
pub async fn orders_and_outcomes_get_along(f: Fixture) {
    let mut claims = Vec::new();
    for n in 0..40 {
        claims.push(f.claimed("acc-1", &format!("k-{n}")).await);
    }
    let ids: Vec<_> = claims.iter().map(|claim| claim.identity.id()).collect();
    let backwards: Vec<_> = ids.iter().rev().copied().collect();
    let end = async {
        for claim in &claims {
            written(&f.store.record(claim.identity.id(), claim.token, samples::completed("x")).await);
        }
    };
    let purge = |ids: Vec<_>| {
        let store = &f.other;
        async move {
            let mut done = 0;
            for _ in 0..5 {
                let acted = store.operate(&ids, &samples::order(Deed::Purge)).await.expect("carried out");
                done += acted.iter().filter(|acted| **acted == Acted::Done).count();
            }
            done
        }
    };
    let ((), first, second) = futures_util::future::join3(end, purge(ids.clone()), purge(backwards)).await;
    let rest = f.store.operate(&ids, &samples::order(Deed::Purge)).await.expect("carried out");
    let rest = rest.iter().filter(|acted| **acted == Acted::Done).count();
    assert_eq!(first + second + rest, 40);
}
