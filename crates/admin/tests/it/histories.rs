//! The story that is told beside a record.

use std::time::Duration;

use http::Method;
use oncekey_store::{Claim, Replaces, Store};
use serde_json::Value;

use crate::world::{LEASE, World, claim, identity, world};

async fn story(world: &World, id: &str) -> Vec<(String, Option<String>, String)> {
    let shown = world.get(&format!("/api/records/{id}")).await.json();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let event = |event: &Value| (text(&event["event"]).unwrap(), text(&event["at"]), text(&event["detail"]).unwrap());
    shown["history"].as_array().expect("a story").iter().map(event).collect()
}

fn events(story: &[(String, Option<String>, String)]) -> Vec<&str> {
    story.iter().map(|(event, ..)| event.as_str()).collect()
}

#[tokio::test]
async fn a_record_that_was_executed_once_and_replayed_says_so() {
    let world = world().await;
    let id = world.completed("k-1").await;
    world.store.count_replays(&[(id, 3)]).await.unwrap();
    let story = story(&world, &id.to_string()).await;
    assert_eq!(events(&story), ["claimed", "completed", "replayed"]);
    assert!(story[0].2.contains(&"ab".repeat(16)), "the node: {story:?}");
    assert!(story[1].2.contains("201"), "{story:?}");
    assert_eq!((story[2].1.as_deref(), story[2].2.contains("3 times")), (None, true), "{story:?}");
}

#[tokio::test]
async fn a_record_that_ran_twice_says_why_and_who_let_it() {
    let world = world().await;
    let id = world.unknown("k-1").await;
    world.clock.advance(Duration::from_secs(5));
    let verdict = r#"{"as":"failed","reason":"not in the ledger"}"#;
    world.send(Method::POST, &format!("/api/records/{id}/resolve"), verdict).await;
    world.clock.advance(Duration::from_secs(5));
    let seen = world.store.read(id).await.unwrap().unwrap().record;
    let replaces = Some(Replaces { token: seen.token, state: seen.state, expired: false });
    let token = oncekey_core::Token::from_bytes([9; 16]);
    world.store.claim(Claim { token, replaces, ..claim("acc-1", "k-1") }).await.unwrap();
    let story = story(&world, &id.to_string()).await;
    assert_eq!(events(&story), ["claimed", "resolved", "attempted"]);
    assert_eq!(story[1].1.as_deref(), Some("2025-11-30T10:53:25.000000Z"));
    assert_eq!(story[1].2, "Resolved from unknown as failed by local (api): not in the ledger");
    assert!(story[2].2.starts_with("Attempt 2 by node"), "{story:?}");
}

#[tokio::test]
async fn a_record_that_was_purged_and_made_anew_tells_both() {
    let world = world().await;
    let id = world.completed("k-1").await;
    world.clock.advance(Duration::from_secs(1));
    world.send(Method::DELETE, &format!("/api/records/{id}"), "").await;
    world.clock.advance(Duration::from_secs(1));
    world.unknown("k-1").await;
    assert_eq!(events(&story(&world, &id.to_string()).await), ["purged", "claimed", "unknown"]);
}

#[tokio::test]
async fn a_lapse_that_nobody_wrote_down_is_told_as_such() {
    let world = world().await;
    world.processing("acc-1", "k-1").await;
    let id = identity("acc-1", "k-1").id().to_string();
    assert_eq!(events(&story(&world, &id).await), ["claimed"]);
    world.clock.advance(LEASE);
    let story = story(&world, &id).await;
    assert_eq!(events(&story), ["claimed", "unknown"]);
    assert!(story[1].1.is_none() && story[1].2.contains("node is gone"), "{story:?}");
}

#[tokio::test]
async fn what_an_operator_ended_is_told_once() {
    let world = world().await;
    let id = world.unknown("k-1").await;
    world.clock.advance(Duration::from_secs(5));
    let verdict = r#"{"as":"completed","response":{"status":200}}"#;
    world.send(Method::POST, &format!("/api/records/{id}/resolve"), verdict).await;
    assert_eq!(events(&story(&world, &id.to_string()).await), ["claimed", "resolved"]);
}
