//! Clients that others made, speaking HTTP/2 with prior knowledge: curl, h2load, and httpx on Python.

use std::process::Stdio;

use oncekey_testkit::{CountingUpstream, PATIENCE, run_python};
use serde_json::Value;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::stand::Gateway;

/// Runs a program to its end and gives what it says.
async fn said(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

const FIELDS: [&str; 4] = ["-H", "X-Account-Id: acc-1", "-H", "Content-Type: application/json"];

#[tokio::test]
async fn curl_orders_gets_the_replay_and_is_told_of_a_mismatch() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "[defaults]\nmax_request = \"8KiB\"\n").await;
    let url = format!("http://{}/orders", gateway.address);
    let long = "x".repeat(20_000);
    let curl = async |body: &str| {
        let own = ["-sS", "-i", "--http2-prior-knowledge", "-H", "Idempotency-Key: k", "-d", body, &*url];
        said("curl", &[&own[..], &FIELDS[..]].concat()).await.to_lowercase()
    };
    let (first, replay) = (curl("{\"amount\":1200}").await, curl("{\"amount\":1200}").await);
    assert!(first.starts_with("http/2 201") && !first.contains("idempotent-replayed"), "{first}");
    assert!(replay.starts_with("http/2 201") && replay.contains("idempotent-replayed: true"), "{replay}");
    assert_eq!(first.split("\r\n\r\n").last(), replay.split("\r\n\r\n").last());
    let (reused, large) = (curl("{\"amount\":1201}").await, curl(&long).await);
    assert!(reused.starts_with("http/2 409") && reused.contains("oncekey-problem: key-reused"), "{reused}");
    assert!(large.starts_with("http/2 413") && large.contains("oncekey-problem: body-too-large"), "{large}");
    assert_eq!(upstream.total(), 1);
    gateway.end().await;
}

/// Eight times fifty requests with one key each, ten at a time on each of two connections.
#[tokio::test]
async fn under_h2load_each_key_is_executed_once() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let directory = oncekey_testkit::scratch_dir().expect("a directory");
    let body = directory.path().join("order.json");
    std::fs::write(&body, "{\"amount\":1200}").expect("written");
    let (url, body) = (format!("http://{}/orders", gateway.address), body.display().to_string());
    let mut runs = JoinSet::new();
    for number in 0..8 {
        let (url, body) = (url.clone(), body.clone());
        runs.spawn(async move {
            let key = format!("Idempotency-Key: load-{number}");
            let own = ["-n", "50", "-c", "2", "-m", "10", "-d", &*body, "-H", &*key, &*url];
            said("h2load", &[&own[..], &FIELDS[..]].concat()).await
        });
    }
    for report in runs.join_all().await {
        assert!(report.contains("50 succeeded, 0 failed, 0 errored, 0 timeout"), "{report}");
        assert!(report.contains("status codes: 50 2xx, 0 3xx, 0 4xx, 0 5xx"), "{report}");
    }
    for number in 0..8 {
        assert_eq!(upstream.executions("acc-1", &format!("load-{number}")), 1);
    }
    assert_eq!(upstream.total(), 8);
    gateway.end().await;
}

#[tokio::test]
async fn httpx_shares_one_execution_over_twenty_streams_and_finds_what_it_left() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "[defaults]\nwait = \"50s\"\n").await;
    let url = format!("http://{}", gateway.address);
    let output = run_python("http2_client.py", &[&*url]).await.expect("the program runs");
    let told: Value = serde_json::from_str(&output).expect("JSON");
    let many = told["many"].as_array().expect("a list");
    assert_eq!(many.len(), 20);
    assert!(
        many.iter().all(|it| it["version"] == "HTTP/2" && it["status"] == 201 && it["body"] == many[0]["body"]),
        "{told}"
    );
    assert_eq!(many.iter().filter(|it| it["replayed"].is_null()).count(), 1, "{told}");
    assert_eq!((&told["left"]["status"], &told["left"]["replayed"]), (&201.into(), &"true".into()), "{told}");
    assert_eq!((upstream.executions("acc-1", "many"), upstream.executions("acc-1", "left")), (1, 1));
    gateway.end().await;
}
