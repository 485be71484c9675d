//! A damaged record is reported as such, is never taken for absent, and can be purged (`record-unreadable`).

use oncekey_store::{Acted, AuditFilter, Claim, Deed, Filter, Resolution, Store, StoreError};
use oncekey_store_test::{granted, samples, written};

use crate::place::{Place, clock};

/// A database with one completed record, to which `damage` was done.
async fn damaged(damage: &str) -> (Place, Claim) {
    let place = Place::migrated();
    let store = place.open(clock());
    let claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
    granted(&store.claim(claim.clone()).await);
    written(&store.record(claim.identity.id(), claim.token, samples::completed("x")).await);
    drop(store);
    let changed = place.raw().execute(damage, []).expect("the damage is possible");
    assert_eq!(changed, 1, "{damage}");
    (place, claim)
}

/// What is wrong with a record's own columns stops everything but a purge.
#[tokio::test]
async fn a_damaged_record_is_corrupt_and_never_absent() {
    for damage in [
        "UPDATE records SET recipe = 'v9'",
        "UPDATE records SET recipe = 'v1 headers=authorization'",
        "UPDATE records SET key = 'other'",
        "UPDATE records SET scope = 'acc-2'",
        "UPDATE records SET scope_source = 'static'",
        "UPDATE records SET namespace = 'staging'",
        "UPDATE records SET namespace = ''",
        "UPDATE records SET ttl = -1",
        "UPDATE records SET attempts = -1",
        "UPDATE records SET response_status = 70000",
    ] {
        let (place, claim) = damaged(damage).await;
        let (store, id) = (place.open(clock()), claim.identity.id());
        let retry = samples::claim(&claim.identity, samples::owner());
        let corrupt = [
            store.claim(retry).await.map(drop),
            store.read(id).await.map(drop),
            store.peek(&[id]).await.map(drop),
            store.record(id, claim.token, samples::completed("x")).await.map(drop),
            store.resolve(id, Resolution::Failed).await.map(drop),
            store.list(&Filter::default(), None, 10).await.map(drop),
        ];
        for answer in corrupt {
            let Err(StoreError::Corrupt(cause)) = answer else { panic!("{damage}: {answer:?}") };
            assert!(cause.to_string().contains(&id.to_string()), "{damage}: {cause}");
        }
        let purged = store.operate(&[id], &samples::order(Deed::Purge)).await;
        assert_eq!(purged.expect("a damaged record can be purged"), [Acted::Done]);
        let trail =
            store.audit(&AuditFilter { id: Some(id), ..AuditFilter::default() }, None, 10).await.expect("listed");
        assert_eq!(trail.lines.len(), 1, "and that leaves a line: {trail:?}");
        assert!(store.read(id).await.expect("gone").is_none());
    }
}

/// What is wrong with the response stops whoever needs it.
#[tokio::test]
async fn a_damaged_response_is_corrupt() {
    for damage in [
        "UPDATE responses SET head = x'00'",
        "UPDATE responses SET head = substr(head, 1, length(head) - 1)",
        "UPDATE responses SET head = CAST(replace(CAST(head AS TEXT), '201', '200') AS BLOB)",
        "UPDATE responses SET body = NULL",
        "DELETE FROM responses",
        "UPDATE records SET response_status = 202",
    ] {
        let (place, claim) = damaged(damage).await;
        let store = place.open(clock());
        let read = store.read(claim.identity.id()).await;
        assert!(matches!(read, Err(StoreError::Corrupt(_))), "{damage}: {read:?}");
        let met = store.claim(samples::claim(&claim.identity, samples::owner())).await;
        assert!(matches!(met, Err(StoreError::Corrupt(_))), "{damage}: {met:?}");
    }
}

/// An undamaged record reads well under the same treatment, so that it is the damage that is noticed.
#[tokio::test]
async fn a_record_written_back_as_it_was_is_read() {
    let (place, claim) = damaged("UPDATE records SET recipe = 'v1 headers=x-tenant'").await;
    let found = place.open(clock()).read(claim.identity.id()).await.expect("readable").expect("there");
    assert_eq!(found.response, Some(samples::response("x")));
}

/// A sweep goes on past a damaged record that has expired, and past one that hasn't.
#[tokio::test]
async fn a_damaged_record_does_not_stop_a_sweep() {
    let (place, claim) = damaged("UPDATE records SET recipe = 'v9'").await;
    let store = place.open(clock());
    let expired = oncekey_store_test::START.after(claim.lifetimes.ttl);
    assert_eq!(store.sweep(expired, 10).await.expect("swept").deleted, 1);
    assert!(store.read(claim.identity.id()).await.expect("gone").is_none());
}

/// A change and its line are one transaction: where the line can't be written, nothing is changed.
#[tokio::test]
async fn a_change_whose_line_can_not_be_written_is_not_made() {
    let place = Place::migrated();
    let store = place.open(clock());
    let mut ids = Vec::new();
    for key in ["k-1", "k-2"] {
        let claim = samples::claim(&samples::identity("acc-1", key), samples::owner());
        granted(&store.claim(claim.clone()).await);
        written(&store.record(claim.identity.id(), claim.token, samples::written_off()).await);
        ids.push(claim.identity.id());
    }
    place.raw().execute_batch("ALTER TABLE audit RENAME TO set_aside").expect("renamed");
    for deed in [Deed::Purge, Deed::Resolve(Resolution::Failed)] {
        let refused = store.operate(&ids, &samples::order(deed)).await;
        assert!(matches!(refused, Err(StoreError::NotApplied(_))), "{refused:?}");
    }
    for id in &ids {
        let found = store.read(*id).await.expect("readable").expect("still there");
        assert_eq!(found.record.state, oncekey_core::State::Unknown);
    }
    place.raw().execute_batch("ALTER TABLE set_aside RENAME TO audit").expect("renamed");
    let acted = store.operate(&ids, &samples::order(Deed::Purge)).await.expect("carried out");
    assert_eq!(acted, [Acted::Done, Acted::Done]);
}
