//! Filters and parts of listings.

use std::time::Duration;

use crate::world::{World, world};

async fn keys(world: &World, query: &str) -> Vec<String> {
    let answer = world.get(&format!("/api/records?{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    let json = answer.json();
    let records = json["records"].as_array().unwrap();
    records.iter().map(|record| record["key"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn each_filter_selects_and_an_empty_one_does_not() {
    let world = world().await;
    world.completed("old").await;
    world.clock.advance(Duration::from_secs(10));
    world.processing("acc-2", "running").await;
    world.unknown("gone").await;
    let cases = [
        ("", vec!["gone", "running", "old"]),
        ("scope=&key=&state=&limit=&cursor=&route=&older_than=", vec!["gone", "running", "old"]),
        ("scope=acc-2", vec!["running"]),
        ("key=old", vec!["old"]),
        ("scope=acc-2&key=old", vec![]),
        ("state=unknown", vec!["gone"]),
        ("state=completed", vec!["old"]),
        ("state=failed", vec![]),
        ("route=%2Forders", vec!["gone", "running", "old"]),
        ("route=*", vec![]),
        ("older_than=10s", vec!["old"]),
        ("namespace=default&key=old", vec!["old"]),
        ("namespace=staging", vec![]),
    ];
    for (query, expected) in cases {
        assert_eq!(keys(&world, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn parts_of_a_listing_join_without_gap_or_repetition() {
    let world = world().await;
    for number in 0..7 {
        world.completed(&format!("k-{number}")).await;
    }
    let mut seen = Vec::new();
    let mut query = "limit=3".to_owned();
    loop {
        seen.extend(keys(&world, &query).await);
        let next = world.get(&format!("/api/records?{query}")).await.json()["next"].clone();
        let Some(next) = next.as_str() else { break };
        query = format!("limit=3&cursor={next}");
    }
    assert_eq!(seen, ["k-6", "k-5", "k-4", "k-3", "k-2", "k-1", "k-0"]);
}

#[tokio::test]
async fn a_part_is_filled_up_past_expired_records() {
    let world = world().await;
    world.unknown("lives-1").await;
    world.completed("dies-1").await;
    world.completed("dies-2").await;
    world.unknown("lives-2").await;
    world.clock.advance(Duration::from_hours(48));
    assert_eq!(keys(&world, "limit=2").await, ["lives-2", "lives-1"]);
}

#[tokio::test]
async fn a_listing_has_a_hundred_records_unless_asked_otherwise() {
    let world = world().await;
    for number in 0..101 {
        world.completed(&format!("k-{number}")).await;
    }
    assert_eq!(keys(&world, "").await.len(), 100);
    assert_eq!(keys(&world, "limit=1000").await.len(), 101);
}

#[tokio::test]
async fn what_a_listing_does_not_know_is_refused_with_what_is_allowed() {
    let world = world().await;
    let cases = [
        ("status=unknown", "scope, key, state"),
        ("status=", "scope, key, state"),
        ("state=done", "processing, completed, failed, unknown"),
        ("older_than=yesterday", "48h"),
        ("limit=0", "1 to 1000"),
        ("limit=1001", "1 to 1000"),
        ("limit=-1", "1 to 1000"),
        ("cursor=garbage", "next"),
        ("cursor=00000000-1", "next"),
        ("scope=a&scope=b", "twice"),
        ("scope=a%00b", "NUL"),
        ("older_than=-1s", "48h"),
        ("limit=99999999999999999999", "1 to 1000"),
    ];
    for (query, hint) in cases {
        let answer = world.get(&format!("/api/records?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        let detail = answer.detail();
        assert!(detail.contains(hint), "{query}: {detail}");
    }
}

#[tokio::test]
async fn filters_join_and_odd_values_match_nothing() {
    let world = world().await;
    world.completed("old").await;
    world.clock.advance(Duration::from_secs(10));
    world.unknown("old-2").await;
    world.unknown("new").await;
    let cases = [
        ("scope=acc-1&key=old&state=completed&route=%2Forders&older_than=10s", vec!["old"]),
        ("scope=acc-1&key=old&state=completed&route=%2Forders&older_than=11s", vec![]),
        ("scope=acc-1&state=unknown&older_than=0s", vec!["new", "old-2"]),
        ("older_than=584542046090y", vec![]),
        ("scope=acc-1'%20OR%20'1'%3D'1", vec![]),
        ("key=%25", vec![]),
        ("key=o_d", vec![]),
        ("key=OLD", vec![]),
        ("scope=%E2%80%AE%F0%9F%98%80", vec![]),
        ("key=old%20", vec![]),
    ];
    for (query, expected) in cases {
        assert_eq!(keys(&world, query).await, expected, "{query}");
    }
    let long = "x".repeat(7000);
    assert!(keys(&world, &format!("scope={long}")).await.is_empty());
}

#[tokio::test]
async fn records_that_come_while_a_listing_is_read_move_none_of_its_parts() {
    let world = world().await;
    for number in 0..5 {
        world.completed(&format!("k-{number}")).await;
    }
    let (mut seen, mut query) = (Vec::new(), "limit=2".to_owned());
    loop {
        let part = world.get(&format!("/api/records?{query}")).await.json();
        seen.extend(
            part["records"].as_array().unwrap().iter().map(|record| record["key"].as_str().unwrap().to_owned()),
        );
        world.completed(&format!("later-{}", seen.len())).await;
        let Some(next) = part["next"].as_str() else { break };
        query = format!("limit=2&cursor={next}");
    }
    assert_eq!(seen, ["k-4", "k-3", "k-2", "k-1", "k-0"]);
}

#[tokio::test]
async fn a_cursor_of_the_trail_is_none_of_a_listing() {
    let world = world().await;
    for number in 0..2 {
        let id = world.unknown(&format!("k-{number}")).await;
        world.send(http::Method::DELETE, &format!("/api/records/{id}"), "").await;
        world.completed(&format!("kept-{number}")).await;
    }
    let of_trail = world.get("/api/audit?limit=1").await.json()["next"].as_str().unwrap().to_owned();
    let of_records = world.get("/api/records?limit=1").await.json()["next"].as_str().unwrap().to_owned();
    for path in [format!("/api/records?cursor={of_trail}"), format!("/api/audit?cursor={of_records}")] {
        assert_eq!(world.get(&path).await.status, 400, "{path}");
    }
}
