//! Values that are right one by one and not together.

use std::time::Duration;

use oncekey_core::policy::{OnUnknown, Policy};
use oncekey_tower::Guard;

use super::{of, of_file, refusal, warnings};
use crate::settings::{Environment, Purpose, Sources, resolve};

#[test]
fn combinations_that_cannot_work_are_refused() {
    for (text, expected) in [
        (
            "[admin]\nlisten = \"127.0.0.1:8080\"",
            "oncekey.toml:2:10: admin.listen: 127.0.0.1:8080 is taken by `listen`",
        ),
        ("listen = \"0.0.0.0:9464\"", "default: admin.listen: 127.0.0.1:9464 is taken by `listen`"),
        (
            "upstream = \"http://localhost:8080\"",
            "oncekey.toml:1:12: upstream: it is the gateway itself (`listen`), which would call itself for ever",
        ),
        (
            "[declare]\nstandbys = \"none\"",
            "oncekey.toml:2:12: declare.standbys: is about a postgres:// store, and the store is sqlite:oncekey.db, of which everything is read",
        ),
        (
            "store = \"postgres://db/x\"\n[declare]\nstandbys = \"synchronous\"\nsynchronous_commit = \"local\"",
            "oncekey.toml:3:12: declare.standbys: \"synchronous\" contradicts `synchronous_commit` = \"local\", which waits for no standby; allowed beside it: none, asynchronous",
        ),
        (
            "[[route]]\nkey_header = \"X-Account-Id\"",
            "default: route.scope: the header of the key can't be the scope as well",
        ),
        (
            "[defaults]\nanswer_headers = { X-Key = \"k\" }\n[[route]]\nkey_header = \"X-Key\"",
            "oncekey.toml:2:18: defaults.answer_headers: holds the header of the key, which each answer carries as it was sent (K8)",
        ),
        (
            "[[route]]\nscope = [\"jwt:sub\"]",
            "oncekey.toml:2:9: route.scope: `jwt:sub` needs the keys to verify tokens with: `jwks` in `[jwt]`",
        ),
        (
            "[[route]]\nforward_key_as = [\"idempotency-key\"]",
            "oncekey.toml:2:18: route.forward_key_as: the header of the key goes upstream as it was sent",
        ),
        (
            "[[route]]\nscope = [\"header:X-A\"]\nforward_key_as = [\"X-B\", \"X-A\"]",
            "oncekey.toml:3:18: route.forward_key_as: the header of the scope goes upstream as it was sent",
        ),
        (
            "[[route]]\non_unknown = \"probe\"",
            "oncekey.toml:2:14: route.on_unknown: \"probe\" needs `probe_url`; allowed without it: hold, retry",
        ),
        (
            "[[route]]\non_unknown = \"retry\"\nprobe_url = \"http://api/{key}\"",
            "oncekey.toml:3:13: route.probe_url: is used with `on_unknown = \"probe\"` only",
        ),
        (
            "[defaults]\nprobe_settle = \"1h\"\n[[route]]\n[[route]]\npath = \"/a\"",
            "oncekey.toml:2:16: defaults.probe_settle: is used with `on_unknown = \"probe\"` only",
        ),
        (
            "[[route]]\nprobe_headers = { X-A = \"a\" }",
            "oncekey.toml:2:17: route.probe_headers: is used with `on_unknown = \"probe\"` only",
        ),
        (
            "[defaults]\nrequire = \"at_most_once\"\n[[route]]\non_unknown = \"retry\"",
            "oncekey.toml:2:11: defaults.require: at_most_once is more than on_unknown = \"retry\" promises, which is best_effort",
        ),
        (
            "[defaults]\nrequire = \"at_most_once_until_failover\"\non_store_error = \"open\"",
            "oncekey.toml:2:11: defaults.require: at_most_once_until_failover is more than on_store_error = \"open\" promises, \
             which is best_effort",
        ),
        ("[tls]\ncert = \"a.pem\"", "oncekey.toml:2:8: tls.cert: it needs `tls.key` beside it"),
        ("[tls]\nkey = \"a.key\"", "oncekey.toml:2:7: tls.key: it needs `tls.cert` beside it"),
        (
            "[client_cert]\nca = \"ca.pem\"",
            "oncekey.toml:2:6: client_cert.ca: a client certificate comes over TLS only: it needs `tls.cert` and \
             `tls.key`",
        ),
        (
            "[tls]\ncert = \"a.pem\"\nkey = \"a.key\"\n[defaults]\nscope = [\"client-cert\"]",
            "oncekey.toml:5:9: defaults.scope: `client-cert` needs `client_cert.ca`, and `tls.cert` with `tls.key`",
        ),
        (
            "upstream = \"https://api\"\n[upstream_tls]\ncert = \"a.pem\"",
            "oncekey.toml:3:8: upstream_tls.cert: it needs `upstream_tls.key` beside it",
        ),
        (
            "[upstream_tls]\nca = \"ca.pem\"",
            "oncekey.toml:2:6: upstream_tls.ca: `upstream` is http://127.0.0.1:3000, not https: it would do nothing",
        ),
    ] {
        assert_eq!(refusal(text), expected);
    }
}

#[test]
fn a_probe_of_the_defaults_may_serve_some_routes_and_not_others() {
    let text = "[defaults]\nprobe_url = \"http://api/{scope}/{key}\"\nprobe_headers = { Authorization = \"env:T\", X-A = \"a b\" }\n\
                [[route]]\npath = \"/a\"\non_unknown = \"probe\"\nprobe_settle = \"1h\"\n\
                [[route]]\npath = \"/b\"\nmax_attempts = 7\ntrust_outcome = true\n";
    let mut loaded = of_file(text).expect("right");
    assert_eq!(loaded.warnings.len(), 0);
    let routes = &loaded.config.routes;
    let policy = |number: usize| &routes[number].route.policy;
    assert_eq!(policy(0).on_unknown, OnUnknown::Probe { settle: Duration::from_hours(1) });
    assert_eq!((policy(1).on_unknown, policy(1).max_attempts), (OnUnknown::Hold, 7));
    assert!(policy(1).recording.trust_outcome && !policy(0).recording.trust_outcome);
    assert!(routes[0].probe.is_some() && routes[1].probe.is_none());

    let refused = loaded.read_probe_fields(&Environment::default()).expect_err("the secret is missing").to_string();
    assert_eq!(refused, "oncekey.toml:3:17: defaults.probe_headers: `authorization`: T is not set");
    loaded.read_probe_fields(&Environment::from([("T", "Bearer s3cret")])).expect("the secret is there");
    let fields = &loaded.config.routes[0].probe.as_ref().expect("it probes").fields;
    assert_eq!((fields["authorization"].as_bytes(), fields["x-a"].as_bytes()), (&b"Bearer s3cret"[..], &b"a b"[..]));
    assert!(fields["authorization"].is_sensitive());
    assert!(!format!("{:?}", loaded.config).contains("s3cret"));
    assert!(!loaded.show().contains("s3cret"));
}

#[test]
fn a_probe_settles_after_upstream_timeout_unless_it_says_otherwise() {
    let text =
        "[defaults]\nupstream_timeout = \"7m\"\non_unknown = \"probe\"\nprobe_url = \"http://api/{operation_id}\"\n";
    let config = of_file(text).expect("right").config;
    assert_eq!(config.routes[0].route.policy.on_unknown, OnUnknown::Probe { settle: Duration::from_mins(7) });
}

#[test]
fn free_ports_do_not_meet() {
    assert!(of_file("listen = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n").is_ok());
    assert!(of_file("upstream = \"http://[::1]:3000\"\n").is_ok());
    assert!(of_file("upstream = \"http://10.0.0.1:8080/\"\n").is_ok());
}

#[test]
fn an_embedded_store_in_kubernetes_needs_single_node() {
    let kubernetes = || Environment::from([("KUBERNETES_SERVICE_HOST", "10.0.0.1")]);
    for store in ["sqlite:/data/oncekey.db", "memory:"] {
        let file = format!("store = \"{store}\"\n");
        let refused = of(&file, kubernetes(), Vec::new()).expect_err("one host");
        assert!(refused.starts_with(&format!("default: single_node: {store} serves the processes of one host")));
        assert!(of(&format!("{file}single_node = true\n"), kubernetes(), Vec::new()).is_ok());
    }
    let operate = Sources { environment: kubernetes(), purpose: Purpose::Operate, ..Sources::default() };
    assert!(resolve(None, &operate).is_ok());
}

#[test]
fn what_is_doubtful_is_warned_about() {
    for (text, expected) in [
        (
            "[defaults]\nttl = \"23h\"",
            "oncekey.toml:2:7: defaults.ttl: under 24h: a retry that comes later executes again",
        ),
        ("[[route]]\nttl = \"73h\"", "oncekey.toml:2:7: route.ttl: over 72h: the store grows with it"),
        (
            "drain = \"59s\"",
            "oncekey.toml:1:9: drain: shorter than `answer_timeout`: a stop may cut off clients that still wait (D4)",
        ),
        (
            "listen = \"0.0.0.0:8080\"",
            "default: route.scope: a header is believed as sent, and `listen` isn't loopback: whatever stands in front \
             must set or strip it (S4)",
        ),
        (
            "[[route]]\non_store_error = \"open\"",
            "oncekey.toml:2:18: route.on_store_error: `open`: while the store can't be reached, requests are executed without \
             a record, and each of their retries executes again (D1)",
        ),
        (
            "[jwt]\njwks = \"file:j\"\nissuer = \"i\"\naudience = \"a\"",
            "oncekey.toml:2:8: jwt.jwks: no route's `scope` has a `jwt:` source",
        ),
        (
            "[jwt]\njwks = \"file:j\"\nissuer = \"i\"\n[defaults]\nscope = [\"jwt:sub\"]",
            "default: jwt.audience: not set: a token for another audience is taken too, if a key of the set verifies it",
        ),
        (
            "[jwt]\njwks = \"file:j\"\naudience = [\"a\"]\n[defaults]\nscope = [\"jwt:sub\"]",
            "default: jwt.issuer: not set: a token of another issuer is taken too, if a key of the set verifies it",
        ),
        (
            "[jwt]\nissuer = \"i\"",
            "oncekey.toml:2:10: jwt.issuer: there is no `jwks` beside it, so no token is verified",
        ),
        (
            "[defaults]\nscope = [\"cookie:sid\"]",
            "oncekey.toml:2:9: defaults.scope: `cookie:sid` changes with the session cookie: a retry with a new session cookie is \
             a new operation (S4)",
        ),
        (
            "[defaults]\nscope = [\"authorization\"]",
            "oncekey.toml:2:9: defaults.scope: `authorization` changes with the token: a retry with a new token is a new \
             operation (S4)",
        ),
        (
            "store = \"memory:\"",
            "oncekey.toml:1:9: store: memory: forgets every record at exit; a retry after a restart executes again",
        ),
        (
            "[admin]\nlisten = \"0.0.0.0:9464\"",
            "oncekey.toml:2:10: admin.listen: without `admin.token`, an address that isn't loopback serves health and \
             metrics only",
        ),
        (
            "max_buffered = \"1MiB\"\n[[route]]\nmax_request = \"2MiB\"",
            "oncekey.toml:3:15: route.max_request: larger than `max_buffered`: a body that is, too, is always \
             `overloaded` (W3)",
        ),
        (
            "[tls]\ncert = \"a.pem\"\nkey = \"a.key\"\n[client_cert]\nca = \"ca.pem\"",
            "oncekey.toml:5:6: client_cert.ca: no route has `client-cert` in its `scope`: certificates are asked for \
             in vain",
        ),
        (
            "[defaults]\nwait = \"2m\"",
            "oncekey.toml:2:8: defaults.wait: longer than `answer_timeout`: duplicates wait longer than the first request",
        ),
        (
            "[defaults]\non_unknown = \"retry\"\nmax_attempts = 1",
            "oncekey.toml:3:16: defaults.max_attempts: 1 leaves nothing to execute again after an unknown outcome (E7)",
        ),
        (
            "[defaults]\non_unknown = \"probe\"\nprobe_url = \"http://api/{key}\"",
            "oncekey.toml:3:13: defaults.probe_url: names no {scope}: scopes that use one key are told of each other's operations",
        ),
        (
            "[defaults]\non_unknown = \"probe\"\nprobe_url = \"http://api/{scope}/{key}\"\nprobe_settle = \"9m\"",
            "oncekey.toml:4:16: defaults.probe_settle: shorter than `upstream_timeout`: a 404 may be believed while the \
             execution is still under way",
        ),
        (
            "[defaults]\nretry_status = [200, 504]",
            "oncekey.toml:2:16: defaults.retry_status: 504 also stands in `unknown_status`, which goes first\n\
             oncekey.toml:2:16: defaults.retry_status: holds a success: after it a retry executes again (E8)",
        ),
    ] {
        assert_eq!(warnings(text), expected);
    }
}

#[test]
fn what_is_usual_is_not_warned_about() {
    for text in ["", "[defaults]\nttl = \"24h\"", "[defaults]\nttl = \"72h\"", "listen = \"[::1]:8080\""] {
        assert_eq!(warnings(text), "");
    }
    assert_eq!(warnings("listen = \"0.0.0.0:8080\"\n[defaults]\nscope = [\"static:all\"]"), "");
}

#[test]
fn a_doubt_about_the_defaults_is_told_once_for_all_routes() {
    let text = "[defaults]\nttl = \"1h\"\n[[route]]\npath = \"/a\"\n[[route]]\npath = \"/b\"\n[[route]]\npath = \"/c\"\nttl = \"2h\"\n";
    assert_eq!(warnings(text).lines().count(), 2);
}

#[test]
fn the_built_in_configuration_is_the_protocols() {
    let config = of_file("").expect("right").config;
    let route = config.routes[0].readable(None);
    assert_eq!(config.routes.len(), 1);
    assert_eq!(format!("{:?}", route.policy), format!("{:?}", Policy::default()));
    assert_eq!(format!("{:?}", route.guard), format!("{:?}", Guard::default()));
    assert_eq!(format!("{:?}", route.methods), "[POST, PUT, PATCH, DELETE]");
    assert_eq!((&route.path, route.policy.route.as_str()), (&None, "*"));
}

#[test]
fn a_route_starts_from_the_defaults_and_says_the_rest_itself() {
    let text = "[defaults]\nkey = \"required\"\nkey_format = \"uuid4\"\nrequire = \"at_most_once\"\n[[route]]\npath = \"/orders/{id}\"\nmethods = [\"PUT\", \"REPORT\"]\nkey_format = \"any\"\nfingerprint = { headers = [\"X-B\", \"X-A\"], ignore = [\"/b\", \"/a b\"] }\n";
    let config = of_file(text).expect("right").config;
    let guarded = &config.routes[0];
    assert!(guarded.route.guard.key_required);
    assert_eq!(guarded.route.guard.key_format, oncekey_core::KeyFormat::Any);
    assert_eq!(guarded.route.guard.recipe.to_string(), "v2 headers=x-a,x-b ignore=/a%20b,/b");
    assert_eq!(guarded.route.policy.route, "/orders/{id}");
    assert_eq!(format!("{:?}", guarded.route.methods), "[PUT, REPORT]");
    assert_eq!(guarded.require, Some(oncekey_core::PromiseClass::AtMostOnce));
}

/// The status of `in-progress`, the base of types and the lines of a field, by route, and where no route is known.
#[test]
fn own_answers_follow_the_profile_unless_something_nearer_says_otherwise() {
    let text = "profile = \"ietf\"\nproblem_type_base = \"https://top.example/\"\n[defaults]\nanswer_headers = { Vary = \"Origin\" }\n\
                [[route]]\npath = \"/a\"\n\
                [[route]]\npath = \"/b\"\nin_progress_status = 202\nproblem_type_base = \"/problems/\"\nanswer_headers = [\"Vary: A\", \"vary: B\"]\n";
    let config = of_file(text).expect("right").config;
    let said = |own: &oncekey_tower::OwnAnswers| {
        let vary: Vec<_> = own.fields.get_all("vary").iter().map(|value| value.to_str().unwrap().to_owned()).collect();
        let style = &own.style;
        (style.profile.name(), style.in_progress.as_u16(), style.type_base.clone(), vary.join("+"))
    };
    let from_the_top = ("ietf", 409, "https://top.example/".to_owned(), "Origin".to_owned());
    assert_eq!(said(&config.own_answers), from_the_top);
    assert_eq!(said(&config.routes[0].route.own_answers), from_the_top);
    let own = ("ietf", 202, "/problems/".to_owned(), "A+B".to_owned());
    assert_eq!(said(&config.routes[1].route.own_answers), own);
}

#[test]
fn what_defaults_say_beats_the_top_and_the_environment_beats_both() {
    let text = "problem_type_base = \"https://top/\"\n[defaults]\nproblem_type_base = \"https://defaults/\"\n";
    let base = |environment| {
        let config = of(text, environment, Vec::new()).expect("right").config;
        config.routes[0].route.own_answers.style.type_base.clone()
    };
    assert_eq!(base(Environment::default()), "https://defaults/");
    assert_eq!(base(Environment::from([("ONCEKEY_PROBLEM_TYPE_BASE", "/environment/")])), "/environment/");
}

#[test]
fn fixed_fields_in_the_environment_are_a_line_a_list_or_a_table() {
    for text in ["Vary: Origin, Accept", "[\"Vary: Origin, Accept\"]", "{ Vary = \"Origin, Accept\" }"] {
        let loaded = of("", Environment::from([("ONCEKEY_ANSWER_HEADERS", text)]), Vec::new()).expect(text);
        assert_eq!(loaded.config.own_answers.fields["vary"], "Origin, Accept", "{text}");
    }
}

#[test]
fn an_upstream_has_its_schemes_port_unless_it_says_otherwise_and_no_brackets_in_its_host() {
    for (text, host, port) in [
        ("http://api", "api", 80),
        ("http://api:3000/", "api", 3000),
        ("HTTP://[::1]:3000", "::1", 3000),
        ("http://[::1]", "::1", 80),
        ("https://api", "api", 443),
        ("https://[::1]:80", "::1", 80),
    ] {
        let upstream = of_file(&format!("upstream = \"{text}\"")).expect(text).config.upstream.url;
        assert_eq!((upstream.host.as_str(), upstream.port), (host, port), "{text}");
    }
}
