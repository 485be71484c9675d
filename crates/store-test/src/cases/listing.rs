//! Listings: filters, order, pages.

use std::time::Duration;

use oncekey_core::{Key, Namespace, Scope, State};
use oncekey_store::{Claim, Filter, Replaces, Resolution};

use crate::{Fixture, LEASE, granted, samples, written};

/// The keys of all records that match, gathered over pages of `limit`.
async fn keys(f: &Fixture, filter: &Filter, limit: u32) -> Vec<String> {
    let (mut keys, mut cursor) = (Vec::new(), None);
    loop {
        let page = f.other.list(filter, cursor, limit).await.expect("a page");
        assert!(page.records.len() <= usize::try_from(limit).expect("small"), "a page stays within its limit");
        assert!(page.next.is_none() || !page.records.is_empty(), "a page that goes on isn't empty");
        keys.extend(page.records.iter().map(|listed| listed.record.identity.key.as_str().to_owned()));
        match page.next {
            None => return keys,
            Some(next) => cursor = Some(next),
        }
    }
}

async fn claim_as(f: &Fixture, key: &str, change: impl FnOnce(&mut Claim)) -> Claim {
    let mut claim = samples::claim(&samples::identity("acc-1", key), f.owner().await);
    change(&mut claim);
    granted(&f.store.claim(claim.clone()).await);
    claim
}

/// An empty store has an empty page.
pub async fn nothing_is_listed_of_nothing(f: Fixture) {
    let page = f.store.list(&Filter::default(), None, 10).await.expect("a page");
    assert!(page.records.is_empty() && page.next.is_none());
}

/// Without a filter all records are listed as stored, the newest claim first, also one made again.
pub async fn the_newest_claim_comes_first(f: Fixture) {
    let first = f.claimed("acc-1", "first").await;
    f.claimed("acc-1", "second").await;
    f.clock.advance(Duration::from_secs(1));
    f.claimed("acc-1", "third").await;
    assert_eq!(keys(&f, &Filter::default(), 10).await, ["third", "second", "first"]);
    written(&f.store.record(first.identity.id(), first.token, samples::failed()).await);
    assert_eq!(keys(&f, &Filter::default(), 10).await, ["third", "second", "first"], "an outcome moves nothing");
    let replaces = Replaces { token: first.token, state: State::Failed, expired: false };
    granted(&f.store.claim(samples::retry(&first.identity, first.owner, replaces)).await);
    assert_eq!(keys(&f, &Filter::default(), 10).await, ["first", "third", "second"]);
    let page = f.store.list(&Filter::default(), None, 10).await.expect("a page");
    assert_eq!(page.records[0].record, f.found(&first.identity).await.record);
    assert!(page.records[0].owner_alive && page.records[0].now == f.now());
}

/// Every filter takes what it names and nothing else, and they apply together.
pub async fn each_filter_applies(f: Fixture) {
    claim_as(&f, "plain", |_| {}).await;
    claim_as(&f, "namespace", |claim| claim.identity.namespace = "staging".parse::<Namespace>().expect("valid")).await;
    claim_as(&f, "scope", |claim| claim.identity.scope = Scope::new("static", "acc-2").expect("valid")).await;
    claim_as(&f, "route", |claim| claim.origin.route = "/refunds/{id}".into()).await;
    claim_as(&f, "100%", |claim| claim.identity.scope = Scope::new("static", "%").expect("valid")).await;
    f.clock.advance(Duration::from_mins(1));
    claim_as(&f, "young", |claim| claim.identity.key = Key::from_decoded("young").expect("valid")).await;

    let some = |text: &str| Some(text.to_owned());
    let of = |filter: Filter| filter;
    let cases = [
        (of(Filter { namespace: some("staging"), ..Filter::default() }), vec!["namespace"]),
        (of(Filter { scope: some("acc-2"), ..Filter::default() }), vec!["scope"]),
        (of(Filter { scope: some("%"), ..Filter::default() }), vec!["100%"]),
        (of(Filter { scope: some("acc"), ..Filter::default() }), vec![]),
        (of(Filter { key: some("plain"), ..Filter::default() }), vec!["plain"]),
        (of(Filter { key: some("PLAIN"), ..Filter::default() }), vec![]),
        (of(Filter { route: some("/refunds/{id}"), ..Filter::default() }), vec!["route"]),
        (
            of(Filter { older_than: Some(Duration::from_mins(1)), ..Filter::default() }),
            vec!["100%", "route", "scope", "namespace", "plain"],
        ),
        (of(Filter { older_than: Some(Duration::from_micros(60_000_001)), ..Filter::default() }), vec![]),
        (of(Filter { older_than: Some(Duration::MAX), ..Filter::default() }), vec![]),
        (
            of(Filter { scope: some("acc-1"), route: some("/orders"), ..Filter::default() }),
            vec!["young", "namespace", "plain"],
        ),
        (of(Filter { scope: some("acc-2"), key: some("plain"), ..Filter::default() }), vec![]),
    ];
    for (filter, expected) in cases {
        assert_eq!(keys(&f, &filter, 2).await, expected, "{filter:?}");
    }
}

/// The state filter goes by what a record counts as: lapsed is unknown, expired is nothing (E4, E9).
pub async fn the_state_filter_goes_by_what_a_record_counts_as(f: Fixture) {
    let ended = |key: &'static str, outcome| {
        let f = &f;
        async move {
            let claim = f.claimed("acc-1", key).await;
            written(&f.store.record(claim.identity.id(), claim.token, outcome).await);
        }
    };
    ended("expired", samples::completed("x")).await;
    ended("expired-failed", samples::failed()).await;
    f.clock.advance(samples::LIFETIMES.ttl);
    ended("completed", samples::completed("x")).await;
    ended("failed", samples::failed()).await;
    ended("unknown", samples::written_off()).await;
    f.claimed("acc-1", "lapsed").await;
    f.clock.advance(LEASE);
    f.claimed("acc-1", "processing").await;
    for (state, expected) in [
        (State::Processing, vec!["processing"]),
        (State::Completed, vec!["completed"]),
        (State::Failed, vec!["failed"]),
        (State::Unknown, vec!["lapsed", "unknown"]),
    ] {
        assert_eq!(keys(&f, &Filter { state: Some(state), ..Filter::default() }, 1).await, expected, "{state}");
    }
    assert_eq!(keys(&f, &Filter::default(), 3).await.len(), 7, "without it, all that is stored is listed");
}

/// Pages neither repeat nor miss a record while others are claimed and purged in between.
pub async fn pages_are_stable(f: Fixture) {
    let mut claims = Vec::new();
    for n in 0..20 {
        claims.push(f.claimed("acc-1", &format!("key-{n:02}")).await);
    }
    let first = f.store.list(&Filter::default(), None, 7).await.expect("a page");
    f.claimed("acc-1", "new").await;
    // The last of the first page, and one that is still to come, go away.
    for n in [13, 5] {
        let claim: &Claim = &claims[n];
        f.store.retire(claim.owner).await.expect("retired");
        f.store.resolve(claim.identity.id(), Resolution::Failed).await.expect("resolved");
        f.store.purge(claim.identity.id()).await.expect("purged");
    }
    let mut seen: Vec<String> =
        first.records.iter().map(|listed| listed.record.identity.key.as_str().to_owned()).collect();
    let mut cursor = first.next;
    while let Some(next) = cursor {
        let page = f.other.list(&Filter::default(), Some(next), 7).await.expect("a page");
        seen.extend(page.records.iter().map(|listed| listed.record.identity.key.as_str().to_owned()));
        cursor = page.next;
    }
    let expected: Vec<String> = (0..20).rev().filter(|n| *n != 5).map(|n| format!("key-{n:02}")).collect();
    assert_eq!(seen, expected);
}

/// The last page says that it is the last, also when it is full.
pub async fn the_last_page_has_no_next(f: Fixture) {
    for n in 0..6 {
        f.claimed("acc-1", &format!("key-{n}")).await;
    }
    let first = f.store.list(&Filter::default(), None, 3).await.expect("a page");
    let second = f.store.list(&Filter::default(), first.next, 3).await.expect("a page");
    assert_eq!((second.records.len(), second.next), (3, None));
}

/// A cursor that no listing gave out is refused.
pub async fn a_foreign_cursor_is_refused(f: Fixture) {
    f.claimed("acc-1", "k").await;
    for text in ["", "x", "-1", "9223372036854775808000", "1 OR 1=1"] {
        let cursor = oncekey_store::Cursor(text.to_owned());
        let answer = f.store.list(&Filter::default(), Some(cursor), 3).await;
        assert!(matches!(answer, Err(oncekey_store::StoreError::NotApplied(_))), "{text}: {answer:?}");
    }
}
