//! Health, readiness, metrics and the paths that are not served.

use http::Method;
use oncekey_admin::{Readiness, publish_build, publish_class};
use oncekey_core::PromiseClass;

use crate::world::world;

#[tokio::test]
async fn readiness_follows_the_node_and_health_does_not() {
    let world = world().await;
    for (readiness, status, text) in [
        (Readiness::Starting, 503, "starting\n"),
        (Readiness::Ready, 200, "ready\n"),
        (Readiness::Draining, 503, "draining\n"),
    ] {
        world.readiness.send_replace(readiness);
        for path in ["/readyz", "/readyz?store", "/readyz?store="] {
            let answer = world.get(path).await;
            assert_eq!((answer.status, answer.text()), (status, text), "{path}");
        }
        assert_eq!(world.get("/healthz").await.status, 200);
    }
}

#[tokio::test]
async fn every_answer_is_kept_from_being_stored_sniffed_or_run() {
    let world = world().await;
    for path in ["/healthz", "/readyz", "/metrics", "/api/records", "/api/stats", "/", "/nowhere", "/api/records/17"] {
        let headers = world.get(path).await.headers;
        assert_eq!(headers["cache-control"], "no-store", "{path}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert!(headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"), "{path}");
    }
}

#[tokio::test]
async fn metrics_are_in_prometheus_text_format() {
    let answer = world().await.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
}

#[test]
fn the_installed_recorder_shows_what_is_counted_and_what_it_means() {
    let handle = oncekey_admin::install_metrics().unwrap();
    publish_build("1.2.3");
    publish_class(PromiseClass::AtMostOnce);
    publish_class(PromiseClass::BestEffort);
    metrics::counter!("oncekey_requests_total", "route" => "/orders", "outcome" => "executed").increment(2);
    let text = handle.render();
    for line in [
        "# TYPE oncekey_requests_total counter",
        "# HELP oncekey_requests_total Requests",
        "oncekey_requests_total{route=\"/orders\",outcome=\"executed\"} 2",
        "oncekey_build_info{version=\"1.2.3\"} 1",
        "oncekey_promise_class{class=\"best_effort\"} 1",
        "oncekey_promise_class{class=\"at_most_once\"} 0",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[tokio::test]
async fn what_is_not_served_says_what_is() {
    let world = world().await;
    for path in ["/index.html", "/api", "/api/records/", "/api/records/resolve/x", "/healthz/"] {
        let answer = world.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        answer.detail();
    }
    assert!(world.get("/nothing").await.detail().contains("/api/records"));
}

#[tokio::test]
async fn a_wrong_method_says_which_are_right() {
    let world = world().await;
    for (method, path, allowed) in [
        (Method::PUT, "/api/records/17", "GET,HEAD,DELETE"),
        (Method::GET, "/api/sweep", "POST"),
        (Method::POST, "/healthz", "GET,HEAD"),
        (Method::OPTIONS, "/api/records", "GET,HEAD"),
    ] {
        let answer = world.send(method, path, "").await;
        assert_eq!(answer.status, 405, "{path}");
        assert_eq!(answer.headers["allow"], allowed, "{path}");
        answer.detail();
    }
}

/// What a page may do is said with it; nothing that clients sent is in it.
#[tokio::test]
async fn the_dashboard_runs_its_own_scripts_alone() {
    let world = world().await;
    let page = world.get("/").await;
    assert_eq!((page.status, &page.headers["content-type"]), (200, &"text/html; charset=utf-8".parse().unwrap()));
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';") && !policy.contains("unsafe"), "{policy}");
    let text = String::from_utf8(page.body.to_vec()).unwrap();
    let named = text.split('"').filter(|part| part.starts_with("/dashboard/"));
    let mut files = 0;
    for path in named {
        assert_eq!(world.get(path).await.status, 200, "{path}");
        files += 1;
    }
    assert_eq!(files, 2, "a style sheet and the script that names the others");
    let inline = |word: &&str| word.starts_with("style=") || word.starts_with("on") && word.contains('=');
    assert_eq!(text.split_whitespace().find(inline), None);
}

#[tokio::test]
async fn the_status_says_where_each_part_stands_without_the_store() {
    let world = world().await;
    let status = world.get("/api/status").await.json();
    assert_eq!(status["node"]["state"], "ready");
    assert_eq!(status["class"]["state"], "best_effort", "the lowest in force");
    assert_eq!(status["upstream"]["state"], "unseen");
    let scopes = world.get("/api/mismatches").await.json();
    assert_eq!(scopes, serde_json::json!({"scopes":[{"scope":"acc-1","count":3,"over":1}]}));
}
