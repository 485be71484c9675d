//! An operator's commands and the admin API beside running gateways, all on one SQLite file.

use std::process::Output;

use http::Method;
use oncekey_testkit::{Answer, Call, Client, CountingUpstream};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::stand::{Gateway, oncekey, order};

/// What a command printed with `--json`; it must have succeeded.
fn printed(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Leaves an order whose outcome nobody knows, and gives its operation id.
async fn unknown(gateway: &Gateway, key: &str) -> String {
    let answer = gateway.send(&order(key).header("x-test-cut", "fin")).await;
    assert_eq!((answer.status.as_u16(), answer.problem()), (504, Some("outcome-unknown")));
    answer.header("oncekey-operation-id").expect("an id").to_owned()
}

/// Asks for an order again and again until it isn't answered from the record (or its cached copy, R8).
async fn executed_again(gateway: &Gateway, key: &str) -> Answer {
    loop {
        let answer = gateway.send(&order(key)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        if !answer.is_replay() {
            return answer;
        }
    }
}

#[tokio::test]
async fn records_are_listed_and_shown_while_the_gateway_runs() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    gateway.send(&order("done")).await;
    gateway.send(&order("done")).await;
    let id = unknown(&gateway, "lost").await;

    let all = printed(&gateway.operate(&["records", "list", "--json"]));
    assert_eq!((all["records"].as_array().expect("records").len(), &all["next"]), (2, &Value::Null));
    assert_eq!(gateway.ask("/api/records").await.json(), all, "the API and the command say the same");
    let lost = printed(&gateway.operate(&["records", "list", "--state", "unknown", "--json"]));
    assert_eq!(lost["records"][0]["id"], *id);

    let mut shown = printed(&gateway.operate(&["records", "show", &id, "--json"]));
    assert_eq!(gateway.ask(&format!("/api/records/{id}")).await.json(), shown);
    let history = shown.as_object_mut().expect("an object").remove("history").expect("a story");
    assert_eq!((&history[0]["event"], &history[1]["event"]), (&"claimed".into(), &"unknown".into()));
    assert_eq!(shown, lost["records"][0]);
    let expected = json!({
        "id": id, "namespace": "default", "scope": "acc-1", "scope_source": "header:X-Account-Id", "key": "lost",
        "state": "unknown", "route": "*", "method": "POST", "path": "/orders", "response_status": null, "attempts": 1,
        "replays": 0,
    });
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&shown[name], value, "{name}");
    }
    for name in ["fingerprint", "created_at", "started_at", "expires_at", "owner"] {
        assert!(shown[name].is_string(), "{name}: {shown}");
    }
    assert!(shown.get("completed_at").is_some() && shown.as_object().expect("an object").len() == 18, "{shown}");

    let done = printed(&gateway.operate(&["records", "show", "--scope", "acc-1", "--key", "done", "--body", "--json"]));
    assert_eq!((&done["state"], &done["response_status"]), (&"completed".into(), &201.into()));
    assert!(done["response"]["body"].as_str().expect("text").contains("\"key\":\"done\""), "{done}");
    let table = gateway.operate(&["records", "list"]);
    assert!(String::from_utf8_lossy(&table.stdout).starts_with("ID "));

    let stats = printed(&gateway.operate(&["stats", "--json"]));
    assert_eq!((&stats["records"]["completed"], &stats["records"]["unknown"]), (&1.into(), &1.into()));
    let class = stats["class"].as_str().expect("a class");
    let api = gateway.ask("/api/stats").await.json();
    assert_eq!((api["class"].as_str(), api["classes"]["*"].as_str()), (Some(class), Some(class)));
    assert_eq!(api["records"], stats["records"]);
    gateway.end().await;
}

#[tokio::test]
async fn an_unknown_order_resolved_as_completed_is_replayed_with_the_operators_response() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let other = gateway.second(&upstream.url(), "").await;
    let id = unknown(&gateway, "lost").await;
    for retried in [gateway.send(&order("lost")).await, other.send(&order("lost")).await] {
        assert_eq!((retried.status.as_u16(), retried.problem()), (504, Some("outcome-unknown")));
        assert!(retried.json()["detail"].as_str().expect("text").contains("do not repeat it under a new key"));
    }

    let directory = oncekey_testkit::scratch_dir().expect("a directory");
    let file = directory.path().join("response.json");
    let response =
        json!({ "status": 201, "headers": [["X-Found", "a"], ["X-Found", "b"]], "body": "{\"order_id\":7}" });
    std::fs::write(&file, response.to_string()).expect("written");
    let resolve = ["records", "resolve", &id, "--as", "completed", "--response", file.to_str().expect("a path")];
    let dry = gateway.operate(&[&resolve[..], &["--dry-run", "--json"]].concat());
    let retry = "The next retry gets the given response (status 201).";
    let expected = json!({ "matched": 1, "changed": 0, "ids": [id], "more": false, "retry": retry });
    assert_eq!(printed(&dry), expected);
    assert_eq!(gateway.send(&order("lost")).await.status, 504);

    let done = gateway.operate(&[&resolve[..], &["--reason", "found in the ledger", "--json"]].concat());
    let expected = json!({ "matched": 1, "changed": 1, "ids": [id], "more": false, "retry": retry });
    assert_eq!(printed(&done), expected);
    for replay in [gateway.send(&order("lost")).await, other.send(&order("lost")).await] {
        assert_eq!((replay.status.as_u16(), replay.is_replay(), &*replay.body), (201, true, &b"{\"order_id\":7}"[..]));
        assert!(replay.headers.get_all("x-found").iter().eq(["a", "b"]), "{replay:?}");
    }
    assert_eq!(upstream.executions("acc-1", "lost"), 1);

    let again = gateway.operate(&resolve);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("only unknown records are resolved"));
    for gateway in [gateway, other] {
        gateway.end().await;
    }
}

#[tokio::test]
async fn an_unknown_order_resolved_as_failed_is_executed_by_the_next_retry_on_any_gateway() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let other = gateway.second(&upstream.url(), "").await;
    unknown(&gateway, "lost").await;
    unknown(&gateway, "kept").await;
    let asked = gateway.operate(&["records", "resolve", "--key", "lost", "--as", "failed"]);
    assert_eq!(asked.status.code(), Some(64), "there is no terminal to ask on");
    let done = gateway.operate(&["records", "resolve", "--key", "lost", "--as", "failed", "--yes", "--json"]);
    assert_eq!(printed(&done)["changed"], 1);

    let mismatch = other.send(&Call::post("/orders").scope("acc-1").key("lost").json(r#"{"amount":1201}"#)).await;
    assert_eq!(mismatch.problem(), Some("key-reused"), "the fingerprint stays");
    let executed = other.send(&order("lost")).await;
    assert_eq!((executed.status.as_u16(), executed.is_replay()), (201, false));
    let replay = gateway.send(&order("lost")).await;
    assert_eq!((replay.is_replay(), replay.body), (true, executed.body));
    assert_eq!(upstream.executions("acc-1", "lost"), 2);
    let attempts = upstream
        .arrivals()
        .iter()
        .filter(|arrival| arrival.key == "lost")
        .map(|arrival| arrival.headers["oncekey-attempt"].clone())
        .collect::<Vec<_>>();
    assert_eq!(attempts, ["1", "2"]);
    assert_eq!(gateway.send(&order("kept")).await.status, 504);
    for gateway in [gateway, other] {
        gateway.end().await;
    }
}

#[tokio::test]
async fn a_purged_order_is_executed_again_as_a_new_operation_on_every_gateway() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let other = gateway.second(&upstream.url(), "").await;
    let first = gateway.send(&order("k")).await;
    assert!(other.send(&order("k")).await.is_replay(), "both have it, and cache it");

    let dry = gateway.operate(&["records", "purge", "--scope", "acc-1", "--dry-run", "--json"]);
    assert_eq!(printed(&dry)["matched"], 1);
    assert!(gateway.send(&order("k")).await.is_replay());
    let done = gateway.operate(&["records", "purge", "--scope", "acc-1", "--yes", "--json"]);
    assert_eq!(printed(&done)["changed"], 1);
    let second = executed_again(&other, "k").await;
    assert_ne!(second.body, first.body);
    // The other gateway may replay what it has cached for a second more, and then the new answer, but never run it again.
    super::stand::until("the new answer", async || {
        let answer = gateway.send(&order("k")).await;
        assert!(answer.is_replay());
        (answer.body == second.body).then_some(())
    })
    .await;
    assert_eq!(upstream.executions("acc-1", "k"), 2);

    // Through its own admin API a gateway forgets at once.
    let id = second.header("oncekey-operation-id").expect("an id");
    let purge = Call::new(Method::DELETE, format!("/api/records/{id}")).header("content-type", "application/json");
    let purged = Client::new(gateway.admin).call(&purge).await.expect("an answer");
    assert!(purged.status.is_success(), "{purged:?}");
    let third = gateway.send(&order("k")).await;
    assert_eq!((third.status.as_u16(), third.is_replay()), (201, false));
    assert_eq!(upstream.executions("acc-1", "k"), 3);
    for gateway in [gateway, other] {
        gateway.end().await;
    }
}

#[tokio::test]
async fn an_order_being_executed_can_be_neither_purged_nor_resolved() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let client = gateway.client();
    let mut running = JoinSet::new();
    running.spawn(async move { client.call(&order("k").header("x-test-gate", "g")).await });
    upstream.arrived(1).await;
    let listed = printed(&gateway.operate(&["records", "list", "--state", "processing", "--json"]));
    let id = listed["records"][0]["id"].as_str().expect("an id").to_owned();
    for arguments in [&["records", "purge", &id][..], &["records", "resolve", &id, "--as", "failed"]] {
        let output = gateway.operate(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
    let purge = Call::new(Method::DELETE, format!("/api/records/{id}")).header("content-type", "application/json");
    assert_eq!(Client::new(gateway.admin).call(&purge).await.expect("an answer").status, 409);
    upstream.open("g");
    assert_eq!(running.join_all().await.remove(0).expect("an answer").status, 201);
    assert_eq!(upstream.executions("acc-1", "k"), 1);
    gateway.end().await;
}

#[tokio::test]
async fn a_sweep_deletes_what_has_expired_and_only_that() {
    let upstream = CountingUpstream::start().await;
    let settings = "[sweep]\nevery = \"1d\"\n[[route]]\npath = \"/orders\"\nttl = \"100ms\"\n[[route]]\n";
    let gateway = Gateway::start(&upstream.url(), settings).await;
    gateway.send(&order("short")).await;
    gateway.send(&Call::post("/kept").scope("acc-1").key("long")).await;
    super::stand::until("the record to expire", async || {
        let listed = printed(&gateway.operate(&["records", "list", "--key", "short", "--json"]));
        listed["records"].as_array().expect("records").is_empty().then_some(())
    })
    .await;
    let swept = printed(&gateway.operate(&["sweep", "--json"]));
    assert_eq!(swept, json!({ "deleted": 1, "lapsed": 0 }));
    assert!(gateway.send(&Call::post("/kept").scope("acc-1").key("long")).await.is_replay());
    let again = gateway.send(&order("short")).await;
    assert!(!again.is_replay());
    assert_eq!(upstream.executions("acc-1", "short"), 2);
    gateway.end().await;
}

#[tokio::test]
async fn a_store_is_made_by_migrate_once_and_by_many_at_a_time() {
    let directory = oncekey_testkit::scratch_dir().expect("a directory");
    let store = format!("sqlite:{}", directory.path().join("new.db").display());
    let absent = oncekey().args(["stats", "--store", &store]).output().expect("oncekey runs");
    assert_eq!(absent.status.code(), Some(69), "an operator's command makes no store");
    let mut migrations = Vec::new();
    for _ in 0..4 {
        let mut command = oncekey();
        command.args(["migrate", "--store", &store]).stderr(std::process::Stdio::piped());
        migrations.push(command.spawn().expect("oncekey runs"));
    }
    for migration in migrations {
        let output = migration.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let stats = printed(&oncekey().args(["stats", "--json", "--store", &store]).output().expect("oncekey runs"));
    assert_eq!(stats["records"], json!({ "processing": 0, "completed": 0, "failed": 0, "unknown": 0 }));
}

#[tokio::test]
async fn the_admin_api_is_for_who_has_the_token_and_health_and_metrics_for_all() {
    let upstream = CountingUpstream::start().await;
    let directory = oncekey_testkit::scratch_dir().expect("a directory");
    let token = directory.path().join("token");
    std::fs::write(&token, "t0ken\n").expect("written");
    let settings = format!("[admin]\ntoken = \"file:{}\"\n", token.display());
    let gateway = Gateway::start(&upstream.url(), &settings).await;
    let admin = Client::new(gateway.admin);
    for (path, presented, expected) in [
        ("/healthz", None, 200),
        ("/readyz", None, 200),
        ("/readyz?store", None, 200),
        ("/metrics", None, 200),
        ("/api/records", None, 401),
        ("/api/stats", None, 401),
        ("/api/records", Some("Bearer wrong"), 401),
        ("/api/records", Some("Basic t0ken"), 401),
        ("/api/records", Some("Bearer t0ken"), 200),
        ("/api/stats", Some("Bearer t0ken"), 200),
    ] {
        let call = Call::get(path);
        let call = if let Some(presented) = presented { call.header("authorization", presented) } else { call };
        assert_eq!(admin.call(&call).await.expect("an answer").status, expected, "{path} {presented:?}");
    }
    gateway.end().await;
}

#[tokio::test]
async fn without_a_token_no_web_page_reaches_the_admin_api() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let admin = Client::new(gateway.admin);
    for (call, expected) in [
        (Call::get("/api/stats"), 200),
        (Call::get("/api/stats").header("host", "rebound.example"), 403),
        (Call::get("/api/stats").header("origin", "https://shop.example"), 403),
        (Call::get("/metrics").header("host", "rebound.example"), 403),
        (Call::get("/healthz").header("host", "rebound.example"), 200),
        (Call::post("/api/sweep"), 415),
        (Call::post("/api/sweep").json("{}"), 200),
    ] {
        assert_eq!(admin.call(&call).await.expect("an answer").status, expected, "{call:?}");
    }
    gateway.end().await;
}

#[tokio::test]
async fn what_the_api_and_the_command_changed_stands_in_one_trail() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    for key in ["a", "b", "c"] {
        unknown(&gateway, key).await;
    }
    let by_api = Call::post("/api/records/resolve").json(r#"{"filter":{"key":"a"},"as":"failed","reason":"checked"}"#);
    let answer = Client::new(gateway.admin).call(&by_api).await.expect("an answer");
    assert_eq!((answer.status.as_u16(), &answer.json()["changed"]), (200, &1.into()));
    let executed = executed_again(&gateway, "a").await;
    assert_eq!(executed.status, 201);
    let refused = gateway.operate(&["records", "purge", "--all"]);
    assert_eq!(refused.status.code(), Some(64), "there is no terminal to ask on");
    let purged = ["records", "purge", "--all", "--yes", "--reason", "test data", "--json"];
    assert_eq!(printed(&gateway.operate(&purged))["changed"], 3);
    printed(&gateway.operate(&["sweep", "--reason", "disk", "--json"]));

    let trail = printed(&gateway.operate(&["records", "audit", "--json"]));
    assert_eq!(gateway.ask("/api/audit").await.json(), trail);
    let lines = trail["audit"].as_array().expect("lines");
    let told: Vec<_> = lines.iter().map(|line| (&line["action"], &line["via"], &line["reason"])).collect();
    let [sweep, purge, resolve] =
        [("sweep", "cli", "disk"), ("purge", "cli", "test data"), ("resolve", "api", "checked")]
            .map(|(action, via, reason)| (json!(action), json!(via), json!(reason)));
    let expected = [&sweep, &purge, &purge, &purge, &resolve].map(|(action, via, reason)| (action, via, reason));
    assert_eq!(told, expected);
    assert!(lines[0]["who"].as_str().expect("a user").contains("uid "), "{trail}");
    assert_eq!((&lines[4]["who"], &lines[4]["from"]), (&"local".into(), &"127.0.0.1".into()));
    let text = gateway.operate(&["records", "audit", "--key", "a", "--limit", "1"]);
    assert_eq!(String::from_utf8_lossy(&text.stdout).lines().count(), 2);
    gateway.end().await;
}

#[tokio::test]
async fn the_reading_token_may_look_and_is_read_again() {
    let upstream = CountingUpstream::start().await;
    let directory = oncekey_testkit::scratch_dir().expect("a directory");
    let (act, look) = (directory.path().join("token"), directory.path().join("look"));
    std::fs::write(&act, "t0ken\n").expect("written");
    std::fs::write(&look, "l00k\n").expect("written");
    let settings = format!("[admin]\ntoken = \"file:{}\"\nread_token = \"file:{}\"\n", act.display(), look.display());
    let mut gateway = Gateway::start(&upstream.url(), &settings).await;
    let admin = Client::new(gateway.admin);
    let asked = async |call: Call, token: &str| {
        let call = call.header("authorization", &format!("Bearer {token}"));
        admin.call(&call).await.expect("an answer").status.as_u16()
    };
    let (looks, acts) = (|| Call::get("/api/records"), || Call::post("/api/sweep").json("{}"));
    assert_eq!((asked(looks(), "l00k").await, asked(acts(), "l00k").await), (200, 403));
    assert_eq!((asked(looks(), "t0ken").await, asked(acts(), "t0ken").await), (200, 200));
    assert_eq!((asked(looks(), "other").await, asked(acts(), "other").await), (401, 401));
    std::fs::write(&look, "t0ken").expect("written");
    let (taken, said) = gateway.reload(&settings).await;
    assert!(!taken && said.iter().any(|line| line.contains("admin.read_token")), "{said:?}");
    std::fs::write(&look, "other").expect("written");
    let (taken, said) = gateway.reload(&settings).await;
    assert!(taken, "{said:?}");
    assert_eq!((asked(looks(), "other").await, asked(looks(), "l00k").await), (200, 401));
    gateway.end().await;
}
