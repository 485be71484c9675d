//! First claims: one is granted, all others find the record (E1, E2, D2), and nothing of another identity is met (S3, S5).

use std::sync::Arc;

use futures_util::future::join_all;
use oncekey_core::record::Times;
use oncekey_core::{Identity, Key, Namespace, Record, Scope, State};
use oncekey_store::{Claim, Claimed, Store};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::{Fixture, START, granted, held, samples};

/// A first claim is granted as attempt 1 and makes the record that it describes.
pub async fn first_claim_is_granted(f: Fixture) {
    let claim = samples::claim(&samples::identity("acc-1", "k"), f.owner().await);
    let Ok(Claimed::Granted { attempt: 1, now: START }) = f.store.claim(claim.clone()).await else {
        panic!("a first claim is granted at the clock's time")
    };
    let found = f.found(&claim.identity).await;
    let expected = Record {
        identity: claim.identity,
        state: State::Processing,
        token: claim.token,
        owner: claim.owner,
        fingerprint: claim.fingerprint,
        origin: claim.origin,
        lifetimes: claim.lifetimes,
        times: Times {
            created: START,
            started: START,
            ended: None,
            deadline: START.after(claim.lifetimes.run),
            expires: None,
        },
        response_status: None,
        attempts: 1,
        replays: 0,
    };
    assert_eq!(found.record, expected);
    assert!(found.owner_alive && found.response.is_none() && found.now == START);
}

/// A second claim finds the first one's record, field for field, on either handle.
pub async fn second_claim_is_held(f: Fixture) {
    let first = f.claimed("acc-1", "k").await;
    let there = f.found(&first.identity).await;
    for store in [&f.store, &f.other] {
        let second = samples::claim(&first.identity, f.owner().await);
        let found = held(store.claim(second).await);
        assert_eq!(found.record, there.record);
        assert!(found.owner_alive && found.response.is_none());
    }
}

/// A claim whose acknowledgement was lost finds itself, and is granted as the same attempt (D2).
pub async fn own_claim_found_again_is_granted(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    let there = f.found(&claim.identity).await.record;
    for store in [&f.store, &f.other] {
        assert_eq!(granted(&store.claim(claim.clone()).await), 1);
    }
    assert_eq!(f.found(&claim.identity).await.record, there);
}

/// A claim that has ended isn't granted again to a late repetition of itself.
pub async fn own_claim_that_ended_is_held(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    f.store.record(claim.identity.id(), claim.token, samples::completed("done")).await.expect("recorded");
    let found = held(f.store.claim(claim).await);
    assert_eq!(found.record.state, State::Completed);
    assert!(found.response.is_some());
}

/// 64 claims at once on one identity, over both handles: one is granted, and all others find it.
pub async fn of_64_concurrent_claims_one_is_granted(f: Fixture) {
    for round in 0..8 {
        let identity = samples::identity("acc-1", &format!("race-{round}"));
        let owner = f.owner().await;
        let barrier = Arc::new(Barrier::new(64));
        let mut tasks = JoinSet::new();
        for number in 0..64 {
            let store: Arc<dyn Store> = if number % 2 == 0 { f.store.clone() } else { f.other.clone() };
            let (barrier, claim) = (barrier.clone(), samples::claim(&identity, owner));
            tasks.spawn(async move {
                barrier.wait().await;
                (claim.token, store.claim(claim).await.expect("a claim without an error"))
            });
        }
        let (mut winners, mut seen) = (Vec::new(), Vec::new());
        for (token, claimed) in tasks.join_all().await {
            match claimed {
                Claimed::Granted { attempt, .. } => {
                    assert_eq!(attempt, 1);
                    winners.push(token);
                }
                Claimed::Held(found) => seen.push(found.record.token),
            }
        }
        assert_eq!(winners.len(), 1, "one claim is granted");
        assert!(seen.iter().all(|token| *token == winners[0]), "all others find the winner's record");
    }
}

/// A thousand claims at once on as many keys are all granted, and all records are there.
pub async fn a_thousand_claims_on_other_keys_are_all_granted(f: Fixture) {
    let owner = f.owner().await;
    let claims: Vec<Claim> =
        (0..1000).map(|n| samples::claim(&samples::identity("acc-1", &format!("key-{n}")), owner)).collect();
    let answers = join_all(claims.iter().map(|claim| f.store.claim(claim.clone()))).await;
    assert!(answers.iter().all(|answer| granted(answer) == 1));
    for claim in &claims {
        assert_eq!(f.found(&claim.identity).await.record.token, claim.token);
    }
}

/// Namespace, scope source, scope and key are told apart, however their texts run together (S1, S3, S5).
pub async fn identities_never_meet(f: Fixture) {
    let of = |namespace: &str, source: &str, scope: &str, key: &str| Identity {
        namespace: namespace.parse::<Namespace>().expect("a namespace"),
        scope: Scope::new(source, scope).expect("a scope"),
        key: Key::from_decoded(key).expect("a key"),
    };
    let identities = [
        of("default", "header:X-Account-Id", "a:b", "c"),
        of("default", "header:X-Account-Id", "a", "b:c"),
        of("default", "header:X-Account-Id", "a", "c"),
        of("default", "header:X-Merchant", "a", "c"),
        of("default", "static", "a", "c"),
        of("staging", "header:X-Account-Id", "a", "c"),
        of("default", "header:X-Account-Id", "A", "c"),
        of("default", "header:X-Account-Id", "a", "C"),
    ];
    let owner = f.owner().await;
    for identity in &identities {
        assert_eq!(granted(&f.store.claim(samples::claim(identity, owner)).await), 1);
    }
    for identity in &identities {
        assert_eq!(f.found(identity).await.record.identity, *identity);
    }
}

/// Texts that would break a store that builds statements or patterns out of them come back as they were.
pub async fn awkward_texts_are_kept(f: Fixture) {
    let owner = f.owner().await;
    let long_key = "k".repeat(255);
    let long_scope = "\u{1f980}".repeat(255);
    let awkward = [
        ("it's", "';DROP/**/TABLE/**/records;--"),
        ("100%_\\", "%"),
        ("\"quoted\" {brace}", "?1:$2@x"),
        ("\u{e9} \u{2028} \u{202e}", "_"),
        (" inner  space", "\\x00"),
        (long_scope.as_str(), long_key.as_str()),
    ];
    for (scope, key) in awkward {
        let mut claim = samples::claim(&samples::identity(scope, key), owner);
        claim.origin.path = format!("/orders/{scope}'\"");
        assert_eq!(granted(&f.store.claim(claim.clone()).await), 1);
        let record = f.found(&claim.identity).await.record;
        assert_eq!((record.identity, record.origin), (claim.identity, claim.origin));
    }
}

/// What was never claimed isn't there.
pub async fn an_unclaimed_record_is_absent(f: Fixture) {
    f.claimed("acc-1", "k").await;
    assert!(f.read(&samples::identity("acc-1", "other")).await.is_none());
    let absent = samples::identity("acc-2", "k").id();
    assert!(f.store.peek(&[absent]).await.expect("a peek").is_empty());
    assert!(matches!(f.store.record(absent, samples::token(), samples::failed()).await, Ok(recorded) if
        matches!(recorded, oncekey_store::Recorded::Fenced(None))));
}
