//! Counts and sizes, and what a store says about itself.

use std::time::Duration;

use oncekey_core::{PromiseClass, Scope, State};
use oncekey_store::Replaces;

use crate::{Fixture, granted, samples, written};

const SECOND: Duration = Duration::from_secs(1);

/// Replays add up over calls, handles and states; an id without a record is passed over.
pub async fn replays_add_up(f: Fixture) {
    let (one, two) = (f.claimed("acc-1", "one").await, f.claimed("acc-1", "two").await);
    let absent = samples::identity("acc-1", "absent").id();
    written(&f.store.record(one.identity.id(), one.token, samples::completed("x")).await);
    let before = f.found(&one.identity).await;
    f.store.count_replays(&[(one.identity.id(), 2), (absent, 9), (two.identity.id(), 1)]).await.expect("counted");
    f.other.count_replays(&[(one.identity.id(), 3)]).await.expect("counted");
    f.store.count_replays(&[]).await.expect("counted");
    let after = f.found(&one.identity).await;
    assert_eq!((after.record.replays, f.found(&two.identity).await.record.replays), (5, 1));
    assert_eq!(after.response, before.response);
    assert_eq!(after.record.times, before.record.times);
    assert!(f.store.read(absent).await.expect("read").is_none());
}

/// Namespace, source and value are the scope; the count ends at its limit, and other handles' records are in it.
pub async fn the_records_of_one_scope_are_counted(f: Fixture) {
    let count = async |scope: &str, limit| {
        let identity = samples::identity(scope, "k");
        f.store.count_scope(&identity.namespace, &identity.scope, limit).await.expect("a count")
    };
    assert_eq!(count("acc-1", 100).await, 0);
    for key in ["a", "b", "c"] {
        f.claimed("acc-1", key).await;
    }
    f.claimed("acc-2", "a").await;
    let mut elsewhere = samples::identity("acc-1", "d");
    elsewhere.namespace = "other".parse().expect("a namespace");
    let mut of_another_source = samples::identity("acc-1", "e");
    of_another_source.scope = Scope::new("jwt:sub", "acc-1").expect("a scope");
    for identity in [&elsewhere, &of_another_source] {
        granted(&f.store.claim(samples::claim(identity, f.owner().await)).await);
    }
    let by_other = samples::claim(&samples::identity("acc-1", "f"), f.owner().await);
    granted(&f.other.claim(by_other).await);
    assert_eq!(count("acc-1", 100).await, 4);
    assert_eq!((count("acc-1", 4).await, count("acc-1", 3).await, count("acc-1", 0).await), (4, 3, 0));
    assert_eq!((count("acc-2", 100).await, count("acc", 100).await), (1, 0));
}

/// A record counts once, whatever its state, until it is purged or swept.
pub async fn a_count_of_a_scope_follows_what_happens_to_its_records(f: Fixture) {
    let identity = samples::identity("acc-1", "a");
    let count = async || f.store.count_scope(&identity.namespace, &identity.scope, 100).await.expect("a count");
    let (a, b) = (f.claimed("acc-1", "a").await, f.claimed("acc-1", "b").await);
    assert_eq!(count().await, 2);
    written(&f.store.record(a.identity.id(), a.token, samples::completed("x")).await);
    written(&f.store.record(b.identity.id(), b.token, samples::failed()).await);
    let seen = Replaces { token: b.token, state: State::Failed, expired: false };
    assert_eq!(granted(&f.store.claim(samples::retry(&b.identity, f.owner().await, seen)).await), 2);
    assert_eq!(count().await, 2);
    f.store.purge(a.identity.id()).await.expect("purged");
    assert_eq!(count().await, 1);
    f.clock.advance(samples::LIFETIMES.run + samples::LIFETIMES.unknown_ttl);
    f.store.sweep(f.now(), 100).await.expect("a sweep");
    assert_eq!(count().await, 0);
}

/// Records are counted by state, with a zero for every state that has none; a lapsed claim counts as unknown.
pub async fn stats_count_by_state(f: Fixture) {
    let empty = f.store.stats().await.expect("stats");
    assert_eq!(empty.records.len(), State::ALL.len());
    assert!(empty.records.values().all(|count| *count == 0));
    for (key, outcome) in [
        ("a", Some(samples::completed("x"))),
        ("b", Some(samples::completed("x"))),
        ("c", Some(samples::failed())),
        ("d", None),
        ("e", None),
        ("f", None),
    ] {
        let claim = f.claimed("acc-1", key).await;
        if let Some(outcome) = outcome {
            written(&f.store.record(claim.identity.id(), claim.token, outcome).await);
        }
    }
    let stats = f.other.stats().await.expect("stats");
    let expected = [("processing", 3), ("completed", 2), ("failed", 1), ("unknown", 0)];
    assert_eq!(stats.records, expected.into());
    f.clock.advance(samples::LIFETIMES.run);
    let stats = f.other.stats().await.expect("stats");
    let expected = [("processing", 0), ("completed", 2), ("failed", 1), ("unknown", 3)];
    assert_eq!(stats.records, expected.into());
}

/// The bytes grow with what is stored.
pub async fn stats_tell_the_size(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    let before = f.store.stats().await.expect("stats").bytes;
    let body = samples::with_body(vec![0xa5; 1024 * 1024].into());
    let outcome = oncekey_store::Outcome { event: oncekey_core::Event::Complete, response: Some(body) };
    written(&f.store.record(claim.identity.id(), claim.token, outcome).await);
    let after = f.store.stats().await.expect("stats").bytes;
    assert!(after >= before + 1024 * 1024, "{before} then {after}");
}

/// Of few records the gauges count what the stats count, lapsed claims as unknown.
pub async fn gauges_agree_with_stats(f: Fixture) {
    let gauges = f.store.gauges().await.expect("gauges");
    assert_eq!(gauges.stats.records, [("processing", 0), ("completed", 0), ("failed", 0), ("unknown", 0)].into());
    for (key, outcome) in [
        ("a", Some(samples::completed("x"))),
        ("b", Some(samples::failed())),
        ("c", Some(samples::written_off())),
        ("d", None),
        ("e", None),
    ] {
        let claim = f.claimed("acc-1", key).await;
        if let Some(outcome) = outcome {
            written(&f.store.record(claim.identity.id(), claim.token, outcome).await);
        }
    }
    let abandoned = f.claimed("acc-1", "f").await;
    f.other.retire(abandoned.owner).await.expect("retired");
    let gauges = f.other.gauges().await.expect("gauges");
    assert_eq!(gauges.stats.records, [("processing", 2), ("completed", 1), ("failed", 1), ("unknown", 2)].into());
    assert_eq!(gauges.stats.records, f.store.stats().await.expect("stats").records);
    f.clock.advance(samples::LIFETIMES.run);
    f.store.sweep(f.now(), 100).await.expect("a sweep");
    let gauges = f.other.gauges().await.expect("gauges");
    assert_eq!(gauges.stats.records, [("processing", 0), ("completed", 1), ("failed", 1), ("unknown", 4)].into());
}

/// By its governing claim, while that is valid.
pub async fn gauges_tell_how_long_the_oldest_claim_runs(f: Fixture) {
    let oldest = async || f.store.gauges().await.expect("gauges").oldest_processing;
    assert_eq!(oldest().await, None);
    let first = f.claimed("acc-1", "a").await;
    f.clock.advance(SECOND);
    f.claimed("acc-1", "b").await;
    f.clock.advance(SECOND);
    assert_eq!(oldest().await, Some(2 * SECOND));
    written(&f.store.record(first.identity.id(), first.token, samples::completed("x")).await);
    assert_eq!(oldest().await, Some(SECOND));
    f.clock.advance(crate::LEASE);
    assert_eq!(oldest().await, None, "a lapsed claim runs no more");
}

/// The record that expired first, and is still there.
pub async fn gauges_tell_how_far_sweeping_lags(f: Fixture) {
    let lag = async || f.store.gauges().await.expect("gauges").oldest_expired;
    for key in ["a", "b"] {
        let claim = f.claimed("acc-1", key).await;
        written(&f.store.record(claim.identity.id(), claim.token, samples::completed("x")).await);
        f.clock.advance(SECOND);
    }
    assert_eq!(lag().await, None);
    f.clock.advance(samples::LIFETIMES.ttl);
    assert_eq!(lag().await, Some(2 * SECOND));
    f.store.sweep(f.now(), 1).await.expect("a sweep");
    assert_eq!(lag().await, Some(SECOND));
    f.store.sweep(f.now(), 100).await.expect("a sweep");
    assert_eq!(lag().await, None);
}

/// A store that promises less than `at_most_once` says why, and one that promises it has nothing to say (G2).
pub async fn a_promise_names_what_falls_short(f: Fixture) {
    let promise = f.store.promise().await.expect("a promise");
    assert_eq!(promise.class < PromiseClass::AtMostOnce, !promise.shortfalls.is_empty(), "{promise:?}");
    assert!(!f.store.describe().is_empty());
}
