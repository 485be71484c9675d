//! Retries after a release or a reload: compared under the recipe of the record (F9).

use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderName, Request};
use oncekey_core::Recipe;
use oncekey_store::{ManualClock, MemoryStore};
use oncekey_store_test::{FaultyStore, START};

use crate::bodies::{TestBody, full};
use crate::harness::*;

const FORM: &str = "application/x-www-form-urlencoded";

fn request(kind: &str, coding: &str, region: &str, body: &[u8]) -> Request<TestBody> {
    let request = post("k").header("Content-Type", kind).header("Content-Encoding", coding).header("X-Region", region);
    request.body(full(body.to_vec())).unwrap()
}

fn json(region: &str, body: &str) -> Request<TestBody> {
    request("application/json", "identity", region, body.as_bytes())
}

fn gzip(body: &str, level: u32) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(body.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Two gateways on one store: one as it was, one as it is after the release or the reload.
async fn worlds(before: Recipe, after: Recipe) -> [World; 2] {
    let clock = Arc::new(ManualClock::at(START));
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(clock.clone()))));
    let start = |recipe: Recipe| {
        let setup = Setup::guarded(|guard| guard.recipe = recipe);
        setup.start_on(Arc::clone(&store), Arc::clone(&clock), Upstream::counting())
    };
    [start(before).await, start(after).await]
}

fn v1() -> Recipe {
    "v1".parse().unwrap()
}

fn ignoring(pointer: &str) -> Recipe {
    Recipe::default().ignoring(vec![pointer.parse().unwrap()])
}

/// Sends the first before the change; then each retry, with what it should get: a replay, or `key-reused`.
async fn check(before: Recipe, after: Recipe, first: Request<TestBody>, retries: Vec<(Request<TestBody>, bool)>) {
    let [old, new] = worlds(before, after).await;
    assert_eq!(old.send(first).await.status(), 201);
    for (index, (retry, same)) in retries.into_iter().enumerate() {
        let answer = new.send(retry).await;
        let expected = if same { None } else { Some("key-reused") };
        assert_eq!((replayed(&answer), problem(&answer)), (same, expected), "retry {index}");
    }
    assert_eq!(new.runs(), 0);
}

/// Under `v1` both were bytes. The release before this one knows nothing else about its records.
#[tokio::test(start_paused = true)]
async fn records_of_the_first_encoding_know_their_retries() {
    let form = |body: &str| request(FORM, "identity", "eu", body.as_bytes());
    let retries = vec![(form("b=1&a=2"), true), (form("a=2&b=1"), false), (form("b=1&a=3"), false)];
    check(v1(), Recipe::default(), form("b=1&a=2"), retries).await;

    let order = "{\"amount\": 1200}";
    let packed = |level| request("application/json", "gzip", "eu", &gzip(order, level));
    let retries = vec![(packed(9), true), (packed(0), false), (json("eu", order), false)];
    check(v1(), Recipe::default(), packed(9), retries).await;

    let retries = vec![(json("eu", "{\"amount\":1.2e3}"), true), (json("eu", "{\"amount\":1}"), false)];
    check(v1(), Recipe::default(), json("eu", order), retries).await;
}

/// The control: without the record's recipe, none of these would be known again.
#[tokio::test(start_paused = true)]
async fn records_of_this_encoding_know_other_spellings() {
    let form = |body: &str| request(FORM, "identity", "eu", body.as_bytes());
    check(Recipe::default(), Recipe::default(), form("b=1&a=2"), vec![(form("a=2&b=1"), true)]).await;
    let back = vec![(form("b=1&a=2"), true), (form("a=2&b=1"), true)];
    check(Recipe::default(), v1(), form("b=1&a=2"), back).await;
}

#[tokio::test(start_paused = true)]
async fn a_record_goes_by_what_was_ignored_when_it_was_made() {
    let body = |amount: u32, at: u32| json("eu", &format!("{{\"amount\":{amount},\"at\":{at}}}"));
    for after in [Recipe::default(), ignoring("/amount")] {
        let retries = vec![(body(1, 1), true), (body(1, 2), true), (body(2, 1), false)];
        check(ignoring("/at"), after, body(1, 1), retries).await;
    }
    let retries = vec![(body(1, 1), true), (body(1, 2), false)];
    check(Recipe::default(), ignoring("/at"), body(1, 1), retries).await;
}

#[tokio::test(start_paused = true)]
async fn a_record_goes_by_the_headers_that_counted_when_it_was_made() {
    let counted = Recipe::new(&[HeaderName::from_static("x-region")]).unwrap();
    let retries = vec![(json("eu", "{}"), true), (json("us", "{}"), true)];
    check(Recipe::default(), counted.clone(), json("eu", "{}"), retries).await;
    let retries = vec![(json("eu", "{}"), true), (json("us", "{}"), false)];
    check(counted, Recipe::default(), json("eu", "{}"), retries).await;
}

/// What ignoring applies to is the decoded body.
#[tokio::test(start_paused = true)]
async fn ignoring_looks_through_codings() {
    let packed = |at: u32| request("application/json", "gzip", "eu", &gzip(&format!("{{\"a\":1,\"at\":{at}}}"), 6));
    check(ignoring("/at"), ignoring("/at"), packed(1), vec![(packed(2), true), (json("eu", "{\"a\":1}"), true)]).await;
}
