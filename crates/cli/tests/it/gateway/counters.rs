//! The counters of `/metrics`: there from the start, and each request under exactly one outcome.

use std::collections::BTreeMap;

use oncekey_testkit::{Call, CountingUpstream, free_address};
use tokio::task::JoinSet;

use super::stand::{Gateway, order, until};
use crate::server::{self, SERVER};

const OUTCOMES: [&str; 21] = [
    "executed",
    "replayed",
    "waited",
    "mismatch",
    "in_progress",
    "unknown",
    "failed",
    "rejected",
    "no_key",
    "unguarded",
    "store_error",
    // Of what isn't in this version.
    "accepted",
    "shadow_executed",
    "shadow_replayed",
    "shadow_waited",
    "shadow_mismatch",
    "shadow_in_progress",
    "shadow_unknown",
    "shadow_failed",
    "shadow_rejected",
    "shadow_store_error",
];

type Counters = BTreeMap<String, u64>;

/// The counters of one metric, by their labels (`route="…",outcome="…"`).
async fn counters(gateway: &Gateway, name: &str) -> Counters {
    let text = String::from_utf8(gateway.ask("/metrics").await.body.to_vec()).expect("UTF-8");
    let values = text.lines().filter_map(|line| {
        let (labels, value) = line.strip_prefix(name)?.strip_prefix('{')?.split_once("} ")?;
        Some((labels.to_owned(), value.parse().expect("a count")))
    });
    values.collect()
}

fn labels(counters: &Counters, route: &str, other: &str) -> Option<u64> {
    let has =
        |labels: &&String| labels.contains(&format!("route=\"{route}\"")) && labels.contains(&format!("=\"{other}\""));
    counters.keys().find(has).map(|labels| counters[labels])
}

#[tokio::test]
async fn every_counter_of_a_configured_route_is_there_at_zero_from_the_start() {
    let upstream = CountingUpstream::start().await;
    let settings = "[[route]]\npath = \"/orders\"\n[[route]]\npath = \"/payments/{id}\"\nmethods = [\"POST\"]\n";
    let gateway = Gateway::start(&upstream.url(), settings).await;
    let requests = counters(&gateway, "oncekey_requests_total").await;
    let problems = counters(&gateway, "oncekey_problems_total").await;
    for route in ["/orders", "/payments/{id}"] {
        for outcome in OUTCOMES {
            assert_eq!(labels(&requests, route, outcome), Some(0), "{route} {outcome}");
        }
        for code in [
            "key-missing",
            "key-invalid",
            "scope-missing",
            "scope-invalid",
            "request-invalid",
            "key-reused",
            "in-progress",
            "body-too-large",
            "response-not-stored",
            "upstream-unreachable",
            "outcome-unknown",
            "store-unavailable",
            "overloaded",
            "record-unreadable",
        ] {
            assert_eq!(labels(&problems, route, code), Some(0), "{route} {code}");
        }
    }
    assert_eq!(labels(&requests, "-", "unguarded"), Some(0));
    assert_eq!(requests.len(), 2 * OUTCOMES.len() + 1, "{requests:?}");
    gateway.end().await;
}

#[tokio::test]
async fn a_mixed_run_is_counted_as_its_clients_counted_it() {
    let upstream = CountingUpstream::start().await;
    let settings =
        "[defaults]\nwait = \"50s\"\nmax_waiters = 3\nmax_request = \"1KiB\"\n[[route]]\npath = \"/orders\"\n";
    let gateway = Gateway::start(&upstream.url(), settings).await;
    let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
    let mut problems: BTreeMap<&str, u64> = BTreeMap::new();
    let keyless = || Call::post("/orders").scope("acc-1").json("{}");
    let answered = [
        ("executed", None, order("a")),
        ("executed", None, order("b").header("x-test-status", "422")),
        ("replayed", None, order("a")),
        ("replayed", None, order("b")),
        ("mismatch", Some("key-reused"), Call::post("/orders").scope("acc-1").key("a").json("{}")),
        ("failed", None, order("c").header("x-test-status", "429")),
        ("executed", None, order("c")),
        ("unknown", Some("outcome-unknown"), order("d").header("x-test-cut", "rst")),
        ("unknown", Some("outcome-unknown"), order("d")),
        ("unknown", None, order("e").header("x-test-status", "502")),
        ("rejected", Some("key-invalid"), keyless().header("idempotency-key", "a b")),
        ("rejected", Some("scope-missing"), Call::post("/orders").key("a")),
        ("rejected", Some("body-too-large"), Call::post("/orders").scope("acc-1").key("f").body(vec![b' '; 1025])),
        ("executed", None, Call::post("/orders").scope("acc-1").key("g").header("x-test-body-bytes", "2000000")),
        ("replayed", Some("response-not-stored"), Call::post("/orders").scope("acc-1").key("g")),
        ("no_key", None, keyless()),
        ("unguarded", None, Call::get("/orders").key("a").scope("acc-1")),
        ("unguarded", None, Call::post("/elsewhere").key("a").scope("acc-1")),
    ];
    for (outcome, problem, call) in answered {
        let answer = gateway.send(&call).await;
        assert_eq!(answer.problem(), problem, "{outcome}: {answer:?}");
        *expected.entry(outcome).or_default() += 1;
        if let Some(code) = problem {
            *problems.entry(code).or_default() += 1;
        }
    }
    let before = upstream.total();
    let mut clients = JoinSet::new();
    for number in 0..5 {
        let client = gateway.client();
        clients.spawn(async move { client.call(&order("slow").header("x-test-gate", "g")).await.expect("an answer") });
        if number == 0 {
            upstream.arrived(before + 1).await;
        }
    }
    let turned_away = clients.join_next().await.expect("a client").expect("no panic");
    assert_eq!(turned_away.problem(), Some("in-progress"));
    upstream.open("g");
    assert!(clients.join_all().await.iter().all(|answer| answer.status == 201));
    for (outcome, count) in [("executed", 1), ("waited", 3), ("in_progress", 1)] {
        *expected.entry(outcome).or_default() += count;
    }
    problems.insert("in-progress", 1);

    let requests = counters(&gateway, "oncekey_requests_total").await;
    for outcome in OUTCOMES {
        // What no route guards counts there, and nothing here was let through.
        let count = expected.get(outcome).copied().filter(|_| outcome != "unguarded").unwrap_or(0);
        assert_eq!(labels(&requests, "/orders", outcome), Some(count), "{outcome}");
    }
    assert_eq!(labels(&requests, "-", "unguarded"), Some(2));
    assert_eq!(requests.values().sum::<u64>(), 18 + 5, "each request counts once");
    let counted = counters(&gateway, "oncekey_problems_total").await;
    for (code, count) in &problems {
        assert_eq!(labels(&counted, "/orders", code), Some(*count), "{code}");
    }
    assert_eq!(counted.values().sum::<u64>(), problems.values().sum::<u64>());
    gateway.end().await;
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_a_failure_that_can_be_repeated() {
    let nowhere = free_address().expect("a port");
    let gateway = Gateway::start(&format!("http://{nowhere}"), "").await;
    for _ in 0..2 {
        let answer = gateway.send(&order("k")).await;
        assert_eq!((answer.status.as_u16(), answer.problem()), (502, Some("upstream-unreachable")));
        assert_eq!(answer.header("retry-after"), Some("2"));
    }
    let requests = counters(&gateway, "oncekey_requests_total").await;
    assert_eq!(labels(&requests, "*", "failed"), Some(2));
    gateway.end().await;
}

#[tokio::test]
async fn the_version_and_the_class_of_promise_are_shown() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let build = counters(&gateway, "oncekey_build_info").await;
    assert_eq!(build.keys().collect::<Vec<_>>(), [&format!("version=\"{}\"", env!("CARGO_PKG_VERSION"))]);
    let class = gateway.ask("/api/stats").await.json()["class"].as_str().expect("a class").to_owned();
    let classes = counters(&gateway, "oncekey_promise_class").await;
    let in_force: Vec<_> = classes.iter().filter(|(_, value)| **value == 1).map(|(labels, _)| labels.clone()).collect();
    assert_eq!(in_force, [format!("class=\"{class}\"")]);
    gateway.end().await;
}

/// Gauges of the store come to what the store says, on each store; and what runs is shown while it runs.
async fn assert_gauges(gateway: &Gateway, upstream: &CountingUpstream) {
    for n in 0..5 {
        gateway.send(&order(&format!("done-{n}"))).await;
    }
    gateway.send(&order("cut").header("x-test-cut", "rst")).await;
    let client = gateway.client();
    let mut clients = JoinSet::new();
    clients.spawn(async move { client.call(&order("slow").header("x-test-gate", "g")).await.expect("an answer") });
    upstream.arrived(7).await;
    let client = gateway.client();
    clients.spawn(async move { client.call(&order("slow").header("x-test-gate", "g")).await.expect("an answer") });
    let wanted = ["oncekey_inflight 1", "oncekey_waiters 1", "oncekey_store_up 1", "oncekey_async_backlog 0"];
    let records = [("processing", 1), ("completed", 5), ("failed", 0), ("unknown", 1)];
    until("the gauges", || async {
        let text = String::from_utf8(gateway.ask("/metrics").await.body.to_vec()).expect("UTF-8");
        let has = |line: &str| text.lines().any(|other| other == line);
        let counted =
            records.iter().all(|(state, count)| has(&format!("oncekey_records{{state=\"{state}\"}} {count}")));
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect("it is there");
            line.parse().expect("a number")
        };
        let runs = value("oncekey_processing_oldest_seconds") > 0.0 && value("oncekey_store_bytes") > 0.0;
        (counted && runs && wanted.iter().all(|line| has(line))).then_some(())
    })
    .await;
    upstream.open("g");
    clients.join_all().await;
}

#[tokio::test]
async fn the_gauges_of_a_sqlite_store_are_what_it_says() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "[defaults]\nwait = \"50s\"\n").await;
    assert_gauges(&gateway, &upstream).await;
    gateway.end().await;
}

#[tokio::test]
async fn the_gauges_of_a_postgresql_store_are_what_it_says() {
    let upstream = CountingUpstream::start().await;
    let store = SERVER.url(&server::database().await);
    let gateway = Gateway::on_server(&store, &upstream.url(), "[defaults]\nwait = \"50s\"\n").await;
    assert_gauges(&gateway, &upstream).await;
    gateway.end().await;
}

/// However many keys and scopes there were, `/metrics` has the same lines.
#[tokio::test]
async fn many_keys_and_scopes_leave_the_metrics_as_long_as_they_were() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "[[route]]\npath = \"/orders\"\n").await;
    let lines = async || String::from_utf8_lossy(&gateway.ask("/metrics").await.body).lines().count();
    let before = lines().await;
    let client = gateway.client();
    for n in 0..1000 {
        let call = Call::post("/orders").scope(&format!("acc-{n}")).key(&format!("key-{n}")).json("{}");
        assert_eq!(client.call(&call).await.expect("an answer").status, 201);
    }
    assert_eq!(lines().await, before);
    gateway.end().await;
}
