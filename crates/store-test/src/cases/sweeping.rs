//! Sweeping: what it deletes, what it marks, and what it never touches (D5, E4, E9).

use std::collections::HashSet;
use std::time::Duration;

use oncekey_core::{Standing, State, standing};
use oncekey_store::{Claimed, Replaces, Swept};
use tokio::task::JoinSet;

use crate::{Fixture, LEASE, granted, samples, written};

const MICRO: Duration = Duration::from_micros(1);

async fn sweep(f: &Fixture, limit: u32) -> Swept {
    f.store.sweep(f.now(), limit).await.expect("swept")
}

/// Records are deleted from their expiry on, not a microsecond before.
pub async fn only_expired_records_are_deleted(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    written(&f.store.record(claim.identity.id(), claim.token, samples::completed("x")).await);
    f.clock.advance(claim.lifetimes.ttl.saturating_sub(MICRO));
    assert_eq!(sweep(&f, 10).await, Swept::default());
    f.clock.advance(MICRO);
    assert_eq!(sweep(&f, 10).await, Swept { deleted: 1, lapsed: 0, more: false });
    assert!(f.read(&claim.identity).await.is_none());
    assert_eq!(granted(&f.store.claim(samples::claim(&claim.identity, claim.owner)).await), 1);
}

/// The reading that the caller trusts decides, not the store's clock, which may have run ahead (E9).
pub async fn the_given_time_decides(f: Fixture) {
    let trusted = f.now();
    let done = f.claimed("acc-1", "done").await;
    written(&f.store.record(done.identity.id(), done.token, samples::completed("x")).await);
    let running = f.claimed("acc-1", "running").await;
    f.clock.jump(Duration::from_hours(365 * 24));
    assert_eq!(f.store.sweep(trusted, 10).await.expect("swept"), Swept::default());
    assert_eq!(f.found(&running.identity).await.record.state, State::Processing);
    assert!(f.read(&done.identity).await.is_some());
}

/// A living owner's running claim is neither marked nor deleted, however long it runs.
pub async fn a_live_claim_is_never_swept(f: Fixture) {
    let mut claim = samples::claim(&samples::identity("acc-1", "k"), f.owner().await);
    claim.lifetimes.run = Duration::from_hours(365 * 24);
    granted(&f.store.claim(claim.clone()).await);
    f.clock.advance(Duration::from_hours(300 * 24));
    f.store.heartbeat(claim.owner, LEASE).await.expect("a heartbeat");
    assert_eq!(sweep(&f, 10).await, Swept::default());
    let found = f.found(&claim.identity).await;
    assert_eq!(standing(&found.record, found.now, found.owner_alive, true), Standing::Processing);
}

/// A claim whose owner is gone is marked `unknown` as of now.
pub async fn a_claim_without_owner_is_marked(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    f.clock.advance(LEASE);
    assert_eq!(sweep(&f, 10).await, Swept { deleted: 0, lapsed: 1, more: false });
    let record = f.found(&claim.identity).await.record;
    assert_eq!((record.state, record.token), (State::Unknown, claim.token));
    assert_eq!(record.times.ended, Some(f.now()));
    assert_eq!(record.times.expires, Some(f.now().after(claim.lifetimes.unknown_ttl)));
}

/// A claim past its deadline is marked `unknown` as of the deadline, however late the sweep comes.
pub async fn a_claim_past_its_deadline_is_marked_as_of_it(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    let deadline = f.now().after(claim.lifetimes.run);
    f.clock.advance(claim.lifetimes.run + Duration::from_hours(1));
    f.store.heartbeat(claim.owner, LEASE).await.expect("a heartbeat");
    assert_eq!(sweep(&f, 10).await.lapsed, 1);
    let record = f.found(&claim.identity).await.record;
    assert_eq!(record.times.ended, Some(deadline));
    assert_eq!(record.times.expires, Some(deadline.after(claim.lifetimes.unknown_ttl)));
}

/// A claim that lapsed longer ago than `unknown_ttl` counts as absent, and a sweep gets rid of it.
pub async fn a_claim_lapsed_long_ago_is_deleted(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    f.clock.advance(claim.lifetimes.run + claim.lifetimes.unknown_ttl);
    while sweep(&f, 10).await != Swept::default() {}
    assert!(f.read(&claim.identity).await.is_none());
}

/// A step stays within its limit and says when there is more.
pub async fn a_step_is_bounded(f: Fixture) {
    let owner = f.owner().await;
    for n in 0..25 {
        let claim = samples::claim(&samples::identity("acc-1", &format!("done-{n}")), owner);
        granted(&f.store.claim(claim.clone()).await);
        written(&f.store.record(claim.identity.id(), claim.token, samples::completed("x")).await);
    }
    f.clock.advance(samples::LIFETIMES.ttl);
    for n in 0..25 {
        granted(&f.store.claim(samples::claim(&samples::identity("acc-1", &format!("gone-{n}")), owner)).await);
    }
    let (mut deleted, mut lapsed) = (0, 0);
    loop {
        let step = sweep(&f, 10).await;
        assert!(step.deleted <= 10 && step.lapsed <= 10, "{step:?}");
        deleted += step.deleted;
        lapsed += step.lapsed;
        if !step.more {
            break;
        }
    }
    assert_eq!((deleted, lapsed), (25, 25));
    assert_eq!(sweep(&f, 10).await, Swept::default());
}

/// Claims on records that expire while two sweepers run: each key has one claim in the end, and no new claim is swept.
pub async fn claims_and_sweeps_get_along(f: Fixture) {
    let owner = f.owner().await;
    let mut expired = Vec::new();
    for n in 0..200 {
        let claim = samples::claim(&samples::identity("acc-1", &format!("key-{n}")), owner);
        granted(&f.store.claim(claim.clone()).await);
        written(&f.store.record(claim.identity.id(), claim.token, samples::completed("old")).await);
        expired.push(claim);
    }
    f.clock.advance(samples::LIFETIMES.ttl);
    let owner = f.owner().await;
    let mut sweepers = JoinSet::new();
    for store in [f.store.clone(), f.other.clone()] {
        let now = f.now();
        sweepers.spawn(async move {
            let mut deleted = 0;
            loop {
                let step = store.sweep(now, 7).await.expect("swept");
                deleted += step.deleted;
                if !step.more {
                    return deleted;
                }
            }
        });
    }
    let mut claimants = JoinSet::new();
    for old in expired {
        let store = f.other.clone();
        let replaces = Replaces { token: old.token, state: State::Completed, expired: true };
        let claim = samples::retry(&old.identity, owner, replaces);
        claimants.spawn(async move {
            let answer = store.claim(claim.clone()).await.expect("a claim");
            assert!(matches!(answer, Claimed::Granted { attempt: 1, .. }), "absent or expired, it is granted");
            claim
        });
    }
    let claims = claimants.join_all().await;
    let deleted: u64 = sweepers.join_all().await.into_iter().sum();
    assert!(deleted <= 200);
    let mut tokens = HashSet::new();
    for claim in claims {
        let record = f.found(&claim.identity).await.record;
        assert_eq!((record.token, record.state), (claim.token, State::Processing));
        tokens.insert(record.token);
    }
    assert_eq!(tokens.len(), 200);
}
