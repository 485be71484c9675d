//! Owners and their heartbeats, deadlines, and the store's own time (E4, D4).

use std::time::Duration;

use oncekey_core::{Standing, standing};
use oncekey_store::Found;

use crate::{Fixture, LEASE, samples};

fn counts_as(found: &Found) -> Standing {
    standing(&found.record, found.now, found.owner_alive, true)
}

/// Whether `claim`'s owner counts as alive, however the record is looked at, on either handle.
async fn alive(f: &Fixture, claim: &oncekey_store::Claim) -> bool {
    let id = claim.identity.id();
    let mut seen = Vec::new();
    for store in [&f.store, &f.other] {
        seen.push(store.read(id).await.expect("read").expect("there").owner_alive);
        seen.push(store.peek(&[id]).await.expect("peeked")[0].owner_alive);
        let page = store.list(&oncekey_store::Filter::default(), None, 10).await.expect("listed");
        seen.push(page.records[0].owner_alive);
        let met = crate::held(store.claim(samples::claim(&claim.identity, claim.owner)).await);
        seen.push(met.owner_alive);
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "all ways of looking agree: {seen:?}");
    seen[0]
}

/// A heartbeat is valid for a lease from the store's now, and not a microsecond longer.
pub async fn a_heartbeat_is_valid_for_its_lease(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    f.clock.advance(LEASE.saturating_sub(Duration::from_micros(1)));
    assert!(alive(&f, &claim).await);
    f.clock.advance(Duration::from_micros(1));
    assert!(!alive(&f, &claim).await);
    assert_eq!(f.other.heartbeat(claim.owner, LEASE).await.expect("a heartbeat"), f.now());
    assert!(alive(&f, &claim).await, "an owner that comes back is alive");
}

/// An owner that never sent a heartbeat isn't alive.
pub async fn an_owner_without_heartbeat_is_not_alive(f: Fixture) {
    let claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
    crate::granted(&f.store.claim(claim.clone()).await);
    assert!(!alive(&f, &claim).await);
}

/// A retired owner's claims lapse at once; other owners' don't.
pub async fn a_retired_owner_is_not_alive(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    f.other.retire(claim.owner).await.expect("retired");
    f.other.retire(claim.owner).await.expect("retired twice");
    assert!(!alive(&f, &claim).await);
    assert_eq!(counts_as(&f.found(&claim.identity).await), Standing::Unknown);
    let other = f.claimed("acc-1", "other").await;
    assert!(f.found(&other.identity).await.owner_alive);
}

/// Past its deadline a claim lapses, whatever its owner does.
pub async fn a_claim_lapses_at_its_deadline(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    f.clock.advance(claim.lifetimes.run.saturating_sub(Duration::from_micros(1)));
    f.store.heartbeat(claim.owner, LEASE).await.expect("a heartbeat");
    assert_eq!(counts_as(&f.found(&claim.identity).await), Standing::Processing);
    f.clock.advance(Duration::from_micros(1));
    let found = f.found(&claim.identity).await;
    assert!(found.owner_alive);
    assert_eq!(counts_as(&found), Standing::Unknown);
}

/// An expired record is still reported; that it counts as absent is the reader's to say (E9).
pub async fn an_expired_record_is_still_reported(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    let id = claim.identity.id();
    let expires = crate::written(&f.store.record(id, claim.token, samples::completed("old")).await);
    f.clock.advance(claim.lifetimes.ttl);
    let found = f.found(&claim.identity).await;
    assert_eq!((found.now, found.record.times.expires), (expires, Some(expires)));
    assert_eq!(counts_as(&found), Standing::Absent);
    assert!(found.response.is_some());
    crate::held(f.store.claim(samples::claim(&claim.identity, claim.owner)).await);
}

/// A peek returns the records of the ids that have one, without their answers.
pub async fn a_peek_reads_many_without_answers(f: Fixture) {
    let mut ids = vec![samples::identity("acc-1", "absent").id()];
    for n in 0..300 {
        let claim = f.claimed("acc-1", &format!("key-{n}")).await;
        if n % 2 == 0 {
            crate::written(&f.store.record(claim.identity.id(), claim.token, samples::completed("x")).await);
        }
        ids.push(claim.identity.id());
    }
    let found = f.other.peek(&ids).await.expect("peeked");
    let mut seen: Vec<_> = found.iter().map(|found| found.record.identity.id()).collect();
    seen.sort();
    ids.remove(0);
    ids.sort();
    assert_eq!(seen, ids);
    assert!(found.iter().all(|found| found.response.is_none() && found.owner_alive));
    assert_eq!(found.iter().filter(|found| found.record.response_status == Some(201)).count(), 150);
    assert!(f.store.peek(&[]).await.expect("peeked").is_empty());
}
