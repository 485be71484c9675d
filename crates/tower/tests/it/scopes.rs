//! The scope: the first source that yields a value, and what keeps scopes apart (rules S).

use http::Request;
use oncekey_core::ScopeSource;
use oncekey_store::{Filter, Store};
use oncekey_tower::{InvalidScope, ScopeReader};

use crate::bodies::{TestBody, full};
use crate::harness::*;

fn scoped(sources: &[&str]) -> Setup {
    read_by(sources.iter().map(|source| ScopeReader::from(source.parse::<ScopeSource>().unwrap())))
}

fn read_by(readers: impl IntoIterator<Item = ScopeReader>) -> Setup {
    Setup::guarded(|guard| guard.scope = readers.into_iter().collect())
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

#[tokio::test(start_paused = true)]
async fn a_cookie_is_found_among_others_however_they_are_sent() {
    let world = scoped(&["cookie:sid"]).start(Upstream::counting()).await;
    assert!(!replayed(&world.send(with(&[("Cookie", "sid=a")])).await));
    let same: [&[(&str, &str)]; 7] = [
        &[("Cookie", "x=1; sid=a; y=2")],
        &[("Cookie", "x=1;sid=a;")],
        &[("Cookie", "x=1; sid = a ;y")],
        &[("Cookie", "x=1"), ("Cookie", "sid=a"), ("Cookie", "y=2")],
        &[("Cookie", "sid=a"), ("Cookie", "")],
        &[("Cookie", "; ;=z;sid=a; SID=b; xsid=c; sidx=d")],
        &[("Cookie", "x=sid=b; sid=a")],
    ];
    for fields in same {
        assert!(replayed(&world.send(with(fields)).await), "{fields:?}");
    }
    for other in ["sid=A", "sid=\"a\"", "sid=a=", "sid=a b"] {
        assert!(!replayed(&world.send(with(&[("Cookie", other)])).await), "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cookie_is_in_no_record_and_its_source_is() {
    let world = scoped(&["cookie:sid"]).start(Upstream::counting()).await;
    world.send(with(&[("Cookie", "sid=secret")])).await;
    let record = world.store.list(&Filter::default(), None, 10).await.unwrap().records.remove(0).record;
    let digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    assert_eq!((record.identity.scope.source(), record.identity.scope.value()), ("cookie:sid", digest));
}

#[tokio::test(start_paused = true)]
async fn a_cookie_sent_twice_is_scope_invalid_and_none_leaves_the_next_source() {
    let world = scoped(&["cookie:sid", "header:X-Tenant"]).start(Upstream::counting()).await;
    for twice in ["sid=a; sid=b", "sid=a; sid=a", "sid=; sid=a"] {
        let answer = world.send(with(&[("Cookie", twice), ("X-Tenant", "t")])).await;
        assert_eq!(problem(&answer), Some("scope-invalid"), "{twice}");
    }
    let split = world.send(with(&[("Cookie", "sid=a"), ("Cookie", "sid=b")])).await;
    assert_eq!(problem(&split), Some("scope-invalid"));
    assert_eq!(world.runs(), 0);
    assert!(!replayed(&world.send(with(&[("X-Tenant", "t")])).await));
    for none in ["", "sid", "sid=", "sid= ;", "Sid=a"] {
        assert!(replayed(&world.send(with(&[("Cookie", none), ("X-Tenant", "t")])).await), "{none}");
    }
    assert_eq!(problem(&world.send(with(&[("Cookie", "sid=")])).await), Some("scope-missing"));
}

/// What a layer in front found out about a request.
#[derive(Clone)]
struct Session(Result<Option<String>, InvalidScope>);

impl Session {
    fn of(value: &str) -> Self {
        Self(Ok(Some(value.to_owned())))
    }

    fn reader() -> ScopeReader {
        ScopeReader::new("session", |head| match head.extensions.get::<Self>() {
            Some(session) => session.0.clone(),
            None => Ok(None),
        })
    }

    fn request(&self) -> Request<TestBody> {
        let mut request = with(&[("X-Tenant", "t")]);
        request.extensions_mut().insert(self.clone());
        request
    }
}

#[tokio::test(start_paused = true)]
async fn a_closure_reads_the_scope_from_what_stands_in_front() {
    let world = read_by([Session::reader()]).start(Upstream::counting()).await;
    assert!(!replayed(&world.send(Session::of("a").request()).await));
    assert!(!replayed(&world.send(Session::of("b").request()).await));
    assert!(replayed(&world.send(Session::of("a").request()).await));
    let record = world.store.list(&Filter::default(), None, 10).await.unwrap().records.remove(0).record;
    assert_eq!(record.identity.scope.source(), "session");
    let answer = world.send(with(&[])).await;
    assert_eq!(problem(&answer), Some("scope-missing"));
    assert!(String::from_utf8_lossy(answer.body()).contains("looked for session,"));
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_yields_nothing_is_passed_over_and_one_that_refuses_is_not() {
    let tenant = ScopeReader::from("header:X-Tenant".parse::<ScopeSource>().unwrap());
    let world = read_by([Session::reader(), tenant]).start(Upstream::counting()).await;
    assert!(!replayed(&world.send(with(&[("X-Tenant", "t")])).await));
    assert!(replayed(&world.send(Session::of("").request()).await));
    assert!(replayed(&world.send(Session(Ok(None)).request()).await));
    let refused = world.send(Session(Err(InvalidScope::because("Sign in again."))).request()).await;
    assert_eq!((refused.status().as_u16(), problem(&refused)), (400, Some("scope-invalid")));
    assert!(String::from_utf8_lossy(refused.body()).contains("\"detail\":\"Sign in again.\""));
    for value in ["x".repeat(256).as_str(), "a\nb"] {
        assert_eq!(problem(&world.send(Session::of(value).request()).await), Some("scope-invalid"));
    }
    assert_eq!(world.runs(), 1);
}
