//! Unknown outcomes end to end: what is configured, asked, answered, counted, and promised (E7, E11, G1, G2).

use oncekey_testkit::{CountingUpstream, Options};

use super::stand::{Gateway, order};

const ROUTES: &str = "[[route]]\npath = \"/orders\"\non_unknown = \"retry\"\n\
                      [[route]]\npath = \"/asked\"\non_unknown = \"probe\"\nprobe_url = \"http://127.0.0.1:1/{scope}/{key}\"\n\
                      [[route]]\npath = \"/held\"\n";

#[tokio::test]
async fn each_route_promises_what_its_policy_leaves_of_the_stores_promise() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), ROUTES).await;
    let held = Gateway::start(&upstream.url(), "[[route]]\npath = \"/held\"\n").await;
    // What the store itself promises depends on the disk under the test.
    let store = held.ask("/api/stats").await.json()["class"].as_str().expect("a class").to_owned();
    let stats = gateway.ask("/api/stats").await.json();
    let lowered = if store == "at_most_once" { "at_most_once_until_failover" } else { store.as_str() };
    assert_eq!(stats["classes"], serde_json::json!({"/orders": "best_effort", "/asked": lowered, "/held": store}));
    assert_eq!(stats["class"], "best_effort");
    let told = gateway.operate(&["stats", "--json", "--config", gateway.config_file()]);
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!((&told["class"], &told["classes"]), (&stats["class"], &stats["classes"]));
    let metrics = String::from_utf8(gateway.ask("/metrics").await.body.to_vec()).expect("text");
    assert!(metrics.contains("oncekey_promise_class{class=\"best_effort\"} 1"), "{metrics}");
    assert!(metrics.contains("oncekey_takeovers_total 0"), "{metrics}");
}

#[tokio::test]
async fn under_retry_the_next_request_executes_again_and_that_is_counted() {
    let upstream =
        CountingUpstream::start_with(Options { idempotent: true, ..Options::default() }).await.expect("a port");
    let gateway = Gateway::start(&upstream.url(), ROUTES).await;
    let cut = gateway.send(&order("k").header("x-test-cut", "rst")).await;
    assert_eq!(
        (cut.status.as_u16(), cut.problem(), cut.header("retry-after")),
        (504, Some("outcome-unknown"), Some("2"))
    );
    let again = gateway.send(&order("k")).await;
    assert_eq!((again.status.as_u16(), again.is_replay(), again.header("x-serial")), (201, false, Some("1")));
    assert!(gateway.send(&order("k")).await.is_replay());
    assert_eq!((upstream.executions("acc-1", "k"), upstream.effects("acc-1", "k")), (2, 1));
    let attempts: Vec<_> =
        upstream.arrivals().iter().map(|arrival| arrival.headers["oncekey-attempt"].clone()).collect();
    assert_eq!(attempts, ["1", "2"]);
    let metrics = String::from_utf8(gateway.ask("/metrics").await.body.to_vec()).expect("text");
    assert!(metrics.contains("oncekey_takeovers_total 1"), "{metrics}");
}

#[tokio::test]
async fn under_probe_the_upstream_is_asked_with_the_configured_fields_and_its_answer_is_the_outcome() {
    let upstream = CountingUpstream::start().await;
    let settings = format!(
        "[[route]]\npath = \"/orders\"\non_unknown = \"probe\"\nprobe_url = \"{}/effects/{{scope}}/{{key}}\"\n",
        upstream.url()
    );
    let gateway = Gateway::start(&upstream.url(), &settings).await;
    let cut = gateway.send(&order("k").header("x-test-cut", "rst")).await;
    assert_eq!((cut.problem(), cut.header("retry-after")), (Some("outcome-unknown"), Some("2")));
    let told = gateway.send(&order("k")).await;
    assert_eq!((told.status.as_u16(), told.is_replay(), told.header("x-serial")), (201, true, Some("1")));
    assert_eq!((told.header("idempotency-key"), told.header("oncekey-operation-id").is_some()), (Some("k"), true));
    assert!(gateway.send(&order("k")).await.is_replay());
    assert_eq!((upstream.total(), upstream.asked()), (1, 1));
}

#[tokio::test]
async fn the_upstreams_own_verdict_counts_where_it_is_trusted_and_never_reaches_the_client() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(
        &upstream.url(),
        "[[route]]\npath = \"/orders\"\ntrust_outcome = true\n[[route]]\nmethods = [\"PUT\"]\n",
    )
    .await;
    let told = |key: &str, outcome: &str| {
        order(key).header("x-test-header", &format!("Oncekey-Outcome: {outcome}")).header("x-test-status", "200")
    };
    for (key, outcome, executions) in [("done", "completed", 1), ("not", "failed", 2), ("who", "unknown", 1)] {
        let first = gateway.send(&told(key, outcome)).await;
        assert_eq!((first.status.as_u16(), first.header("oncekey-outcome")), (200, None));
        let retry = gateway.send(&told(key, outcome)).await;
        assert_eq!((retry.problem().is_some(), retry.is_replay()), (key == "who", key == "done"), "{key}");
        assert_eq!(upstream.executions("acc-1", key), executions, "{key}");
    }
}
