//! The scope: the first source that yields a value, and what keeps scopes apart (rules S).

use http::Request;
use oncekey_core::ScopeSource;

use crate::bodies::{TestBody, full};
use crate::harness::*;

fn scoped(sources: &[&str]) -> Setup {
    let sources: Vec<ScopeSource> = sources.iter().map(|source| source.parse().unwrap()).collect();
    Setup::guarded(|guard| guard.scope = sources)
}

fn with(fields: &[(&str, &str)]) -> Request<TestBody> {
    let request = Request::post("/orders").header("Idempotency-Key", "k");
    fields.iter().fold(request, |request, (name, value)| request.header(*name, *value)).body(full("{}")).unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_scope_has_keys_of_its_own() {
    let world = World::of(Upstream::counting()).await;
    for account in ["acc-1", "acc-2", "ACC-1", "acc-1 x"] {
        assert!(!replayed(&world.send(with(&[("X-Account-Id", account)])).await), "{account}");
        assert!(replayed(&world.send(with(&[("X-Account-Id", account)])).await), "{account}");
    }
    assert!(replayed(&world.send(with(&[("X-Account-Id", " acc-1\t")])).await), "white space around it is none of it");
}

#[tokio::test(start_paused = true)]
async fn the_first_source_that_yields_a_value_is_the_scope() {
    let world = scoped(&["header:X-Tenant", "authorization", "static:all"]).start(Upstream::counting()).await;
    let (tenant, credential) = (("X-Tenant", "t"), ("Authorization", "Bearer a"));
    let steps: [(&[(&str, &str)], bool); 10] = [
        (&[tenant, credential], false),
        (&[tenant], true),
        (&[tenant, ("Authorization", "Bearer b")], true),
        (&[credential], false),
        (&[("X-Tenant", ""), credential], true),
        (&[("X-Tenant", "  "), credential], true),
        (&[("Authorization", "Bearer b")], false),
        (&[], false),
        (&[("Authorization", ""), ("X-Tenant", "")], true),
        (&[("X-Other", "x")], true),
    ];
    for (fields, replay) in steps {
        assert_eq!(replayed(&world.send(with(fields)).await), replay, "{fields:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_value_from_two_sources_is_two_scopes() {
    let world = scoped(&["header:X-A", "header:X-B"]).start(Upstream::counting()).await;
    assert!(!replayed(&world.send(with(&[("X-A", "v")])).await));
    assert!(!replayed(&world.send(with(&[("X-B", "v")])).await));
    assert!(replayed(&world.send(with(&[("X-B", "v")])).await));
}

#[tokio::test(start_paused = true)]
async fn no_value_is_scope_missing_and_says_what_was_looked_for() {
    let world = scoped(&["header:X-Tenant", "authorization"]).start(Upstream::counting()).await;
    let answer = world.send(with(&[("X-Tenant", "")])).await;
    assert_eq!(problem(&answer), Some("scope-missing"));
    let json: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
    let detail = json["detail"].as_str().unwrap();
    for named in ["header:X-Tenant", "authorization", "`scope`"] {
        assert!(detail.contains(named), "{detail}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_lines_and_too_long_values_are_scope_invalid() {
    let world = scoped(&["header:X-Tenant", "authorization", "static:all"]).start(Upstream::counting()).await;
    let (longest, long) = ("é".repeat(255), "é".repeat(256));
    let invalid: [&[(&str, &str)]; 4] = [
        &[("X-Tenant", "a"), ("X-Tenant", "a")],
        &[("X-Tenant", ""), ("X-Tenant", "")],
        &[("X-Tenant", &long)],
        &[("Authorization", "Bearer a"), ("Authorization", "Bearer a")],
    ];
    for fields in invalid {
        assert_eq!(problem(&world.send(with(fields)).await), Some("scope-invalid"), "{fields:?}");
    }
    let latin1 = Request::post("/orders").header("Idempotency-Key", "k").header("X-Tenant", &b"\xe9"[..]);
    assert_eq!(problem(&world.send(latin1.body(full("{}")).unwrap()).await), Some("scope-invalid"));
    assert_eq!(world.runs(), 0);
    assert_eq!(world.send(with(&[("X-Tenant", &longest)])).await.status(), 201);
}

#[tokio::test(start_paused = true)]
async fn scope_and_key_never_run_into_each_other() {
    let world = World::of(Upstream::counting()).await;
    let request = |scope, key| {
        Request::post("/orders").header("Idempotency-Key", key).header("X-Account-Id", scope).body(full("")).unwrap()
    };
    for (scope, key) in [("a:b", "c"), ("a", "b:c"), ("a", "bc"), ("ab", "c")] {
        assert!(!replayed(&world.send(request(scope, key)).await), "{scope} {key}");
    }
}

#[tokio::test(start_paused = true)]
async fn namespaces_on_one_store_never_meet() {
    let production = World::of(Upstream::counting()).await;
    let setup = Setup { namespace: "staging", ..Setup::default() };
    let (store, clock) = (production.store.clone(), production.clock.clone());
    let staging = setup.start_on(store.clone(), clock.clone(), Upstream::counting()).await;
    let same = Setup::default().start_on(store, clock, Upstream::counting()).await;
    let first = production.send(order("k")).await;
    let other = staging.send(order("k")).await;
    assert!(!replayed(&other));
    assert_ne!(lines(&first, "Oncekey-Operation-Id"), lines(&other, "Oncekey-Operation-Id"));
    assert!(replayed(&same.send(order("k")).await), "the same namespace on another node");
    assert_eq!(same.runs(), 0);
}
