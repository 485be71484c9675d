//! The trail: one line a change, listed in parts, without bodies.

use http::Method;
use oncekey_admin::{Access, AdminToken, Tokens};
use serde_json::{Value, json};

use crate::world::{World, ask, world, world_with};

async fn trail(world: &World, query: &str) -> Vec<Value> {
    let answer = world.get(&format!("/api/audit?{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    answer.json()["audit"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_resolution_a_purge_and_a_sweep_each_leave_a_line() {
    let world = world().await;
    let (first, second) = (world.unknown("k-1").await, world.unknown("k-2").await);
    let verdict =
        json!({"as": "completed", "response": {"status": 201, "body": "s3nsitive"}, "reason": "in the ledger"});
    world.send(Method::POST, &format!("/api/records/{first}/resolve"), &verdict.to_string()).await;
    world.send(Method::DELETE, &format!("/api/records/{second}"), r#"{"reason":"a test"}"#).await;
    world.send(Method::POST, "/api/sweep", r#"{"reason":"disk"}"#).await;

    let answer = world.get("/api/audit").await;
    assert!(!answer.text().contains("s3nsitive"), "no bodies");
    let mut lines = answer.json()["audit"].as_array().unwrap().clone();
    for line in &mut lines {
        let call = line.as_object_mut().unwrap().remove("call").unwrap();
        assert_eq!(call.as_str().unwrap().len(), 16);
    }
    let line = |action: &str, id: Option<String>, rest: Value| {
        let key = match (&id, action) {
            (None, _) => Value::Null,
            (Some(_), "purge") => json!("k-2"),
            (Some(_), _) => json!("k-1"),
        };
        let about = |text: &str| if id.is_some() { json!(text) } else { Value::Null };
        let mut line = json!({
            "at": "2025-11-30T10:53:20.000000Z", "action": action, "id": id, "namespace": about("default"),
            "scope": about("acc-1"), "scope_source": about("header:X-Account-Id"), "key": key,
            "route": about("/orders"), "before": about("unknown"), "after": null, "response_status": null,
            "deleted": null, "lapsed": null, "who": "local", "via": "api", "from": null,
        });
        line.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        line
    };
    let expected = [
        line("sweep", None, json!({"deleted": 0, "lapsed": 0, "reason": "disk"})),
        line("purge", Some(second.to_string()), json!({"reason": "a test"})),
        line(
            "resolve",
            Some(first.to_string()),
            json!({"after": "completed", "response_status": 201, "reason": "in the ledger"}),
        ),
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn what_one_call_did_shares_a_number_and_what_was_refused_leaves_nothing() {
    let world = world().await;
    for number in 0..3 {
        world.unknown(&format!("k-{number}")).await;
    }
    let running = world.processing("acc-2", "k").await;
    world.send(Method::POST, "/api/records/purge", r#"{"filter":{"scope":"acc-1"},"reason":"cleared"}"#).await;
    world.send(Method::DELETE, &format!("/api/records/{running}"), "").await;
    world.send(Method::POST, &format!("/api/records/{running}/resolve"), r#"{"as":"failed"}"#).await;
    let lines = trail(&world, "").await;
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line["call"] == lines[0]["call"] && line["reason"] == "cleared"));
}

#[tokio::test]
async fn the_role_that_was_presented_is_noted() {
    let token = |secret: &str| Some(AdminToken::new(secret).unwrap());
    let world = world_with(Access::new(Tokens { act: token("s3cret"), read: token("l00k") }, true).unwrap()).await;
    let id = world.unknown("k-1").await;
    let purge = http::Request::builder().method(Method::DELETE).uri(format!("/api/records/{id}"));
    let purge = purge.header("authorization", "Bearer s3cret").body(axum::body::Body::empty()).unwrap();
    assert_eq!(ask(&world.router, purge).await.status, 200);
    let look = http::Request::builder().uri("/api/audit").header("authorization", "Bearer l00k");
    let lines = ask(&world.router, look.body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!(lines.json()["audit"][0]["who"], "token");
    assert!(!lines.text().contains("s3cret"));
}

#[tokio::test]
async fn the_trail_is_filtered_and_comes_in_parts() {
    let world = world().await;
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(world.unknown(&format!("k-{number}")).await);
    }
    world.send(Method::POST, "/api/records/purge", r#"{"all":true}"#).await;
    world.send(Method::POST, "/api/sweep", "").await;
    let (mut seen, mut query) = (0, "limit=2".to_owned());
    loop {
        let part = world.get(&format!("/api/audit?{query}")).await.json();
        seen += part["audit"].as_array().unwrap().len();
        world.send(Method::POST, "/api/sweep", "").await;
        let Some(next) = part["next"].as_str() else { break };
        query = format!("limit=2&cursor={next}");
    }
    assert_eq!(seen, 6, "lines that come meanwhile move none");
    for (query, expected) in [
        (format!("id={}", ids[2]), 1),
        ("key=k-1".to_owned(), 1),
        ("scope=acc-1".to_owned(), 5),
        ("scope=acc-1&key=k-1&namespace=default".to_owned(), 1),
        ("namespace=staging".to_owned(), 0),
        ("scope=acc-1'--".to_owned(), 0),
    ] {
        assert_eq!(trail(&world, &query).await.len(), expected, "{query}");
    }
    for query in ["id=17", "limit=0", "limit=1001", "cursor=x", "action=purge", "key=a&key=b", "key=%00"] {
        assert_eq!(world.get(&format!("/api/audit?{query}")).await.status, 400, "{query}");
    }
}

#[tokio::test]
async fn a_reason_is_free_text_of_a_bounded_length() {
    let world = world().await;
    let id = world.unknown("k-1").await;
    let path = format!("/api/records/{id}");
    for body in [r#"{"reasons":"x"}"#.to_owned(), "why".to_owned(), json!({"reason": "r".repeat(1001)}).to_string()] {
        assert_eq!(world.send(Method::DELETE, &path, &body).await.status, 400, "{body}");
        assert_eq!(world.send(Method::POST, "/api/sweep", &body).await.status, 400, "{body}");
    }
    let odd = "<script>\u{202e}'; DROP TABLE audit; --\n";
    assert_eq!(world.send(Method::DELETE, &path, &json!({"reason": odd}).to_string()).await.status, 200);
    assert_eq!(trail(&world, "").await[0]["reason"], odd);
    let id = world.unknown("k-2").await;
    let nul = world.send(Method::DELETE, &format!("/api/records/{id}"), r#"{"reason":"a\u0000b"}"#).await;
    assert_eq!(nul.status, 400);
}
