//! Answers that reach the first client as they arrive (R5, R7).

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use http::Response;
use http_body_util::BodyExt;
use oncekey_core::State;
use oncekey_core::policy::Policy;
use oncekey_tower::ResponseBody;
use parking_lot::Mutex;

use crate::bodies::{Feed, TestBody, fed};
use crate::harness::*;

/// An upstream whose first answer the test feeds.
fn feeding(head: impl Fn() -> http::response::Builder + Send + Sync + 'static) -> (Feed, Upstream) {
    let (feed, body) = fed();
    let body = Arc::new(Mutex::new(Some(body)));
    let upstream = Upstream::answering(move || -> Response<TestBody> {
        head().body(body.lock().take().expect("it is called once")).unwrap()
    });
    (feed, upstream)
}

async fn next(body: &mut ResponseBody) -> Bytes {
    settle().await;
    let frame = body.frame().now_or_never().expect("it is there already");
    frame.expect("not the end").unwrap().into_data().unwrap()
}

fn event_stream() -> http::response::Builder {
    Response::builder().header("Content-Type", "Text/Event-Stream; charset=utf-8").header("X-Kept", "1")
}

async fn assert_not_stored(world: &World, original: u16) {
    let retry = world.send(order("k")).await;
    assert_eq!(problem(&retry), Some("response-not-stored"));
    let json: serde_json::Value = serde_json::from_slice(retry.body()).unwrap();
    assert_eq!(json["original_status"], original);
    assert_eq!(world.runs(), 1, "nothing runs again");
}

#[tokio::test(start_paused = true)]
async fn events_arrive_one_by_one_and_are_not_stored() {
    let (feed, upstream) = feeding(event_stream);
    let world = World::of(upstream).await;
    let answer = world.head(order("k")).await;
    assert_eq!((lines(&answer, "X-Kept"), replayed(&answer)), (vec!["1"], false));
    assert_eq!(lines(&answer, "Idempotency-Key"), ["k"]);
    assert_eq!(lines(&answer, "Oncekey-Operation-Id"), [id("k").to_string()]);
    assert_eq!(world.state("k").await, Some(State::Completed), "recorded before anything is delivered");
    let mut body = answer.into_body();
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        feed.send(Ok(event.into())).unwrap();
        assert_eq!(next(&mut body).await, event);
    }
    assert_not_stored(&world, 200).await;
    drop(feed);
    assert!(body.frame().await.is_none());
    assert_not_stored(&world, 200).await;
}

#[tokio::test(start_paused = true)]
async fn a_route_may_stream_all_its_answers() {
    let (feed, upstream) = feeding(|| Response::builder().status(201));
    let world = Setup::governed(|policy| policy.recording.stream = true).start(upstream).await;
    let mut body = world.head(order("k")).await.into_body();
    feed.send(Ok("a".into())).unwrap();
    assert_eq!(next(&mut body).await, "a");
    assert_not_stored(&world, 201).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_announced_too_large_arrives_as_it_is_read() {
    let large = Bytes::from(vec![7; 1024 * 1024 + 1]);
    let whole_answer = large.clone();
    let world = World::of(Upstream::answering(move || {
        let answer = Response::builder().header("Content-Length", whole_answer.len());
        answer.body(crate::bodies::full(whole_answer.clone())).unwrap()
    }))
    .await;
    let answer = world.head(order("k")).await;
    assert_eq!(lines(&answer, "Content-Length"), [large.len().to_string()]);
    assert_eq!(whole(answer).await.body(), &large);
    assert_not_stored(&world, 200).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_grows_too_large_arrives_whole_and_from_then_on_as_it_is_read() {
    let (feed, upstream) = feeding(Response::builder);
    let world = Setup::governed(|policy| policy.recording.max_response = 5).start(upstream).await;
    let client = world.spawn_head(order("k"));
    feed.send(Ok("abc".into())).unwrap();
    settle().await;
    assert!(!client.is_finished(), "it may still become one that is recorded");
    feed.send(Ok("def".into())).unwrap();
    let mut body = client.await.unwrap().into_body();
    assert_eq!(next(&mut body).await, "abc");
    assert_eq!(next(&mut body).await, "def");
    feed.send(Ok("ghi".into())).unwrap();
    assert_eq!(next(&mut body).await, "ghi");
    assert_not_stored(&world, 200).await;
}

#[tokio::test(start_paused = true)]
async fn an_upstream_is_read_to_its_end_for_a_client_that_left() {
    let (feed, upstream) = feeding(event_stream);
    let world = World::of(upstream).await;
    let mut body = world.head(order("k")).await.into_body();
    feed.send(Ok("a".into())).unwrap();
    assert_eq!(next(&mut body).await, "a");
    drop(body);
    for _ in 0..100 {
        settle().await;
        feed.send(Ok("more".into())).expect("it is still being read");
    }
    drop(feed);
    assert_not_stored(&world, 200).await;
}

#[tokio::test(start_paused = true)]
async fn an_endless_stream_without_a_client_ends_with_upstream_timeout() {
    let (feed, upstream) = feeding(event_stream);
    let world = Setup::governed(|policy| policy.timing.upstream_timeout = 2 * MINUTE).start(upstream).await;
    drop(world.head(order("k")).await);
    tokio::time::advance(MINUTE).await;
    settle().await;
    assert!(!feed.is_closed());
    tokio::time::advance(MINUTE).await;
    settle().await;
    assert!(feed.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_with_a_client_outlives_upstream_timeout() {
    let (feed, upstream) = feeding(event_stream);
    let world = Setup::governed(|policy| policy.timing.upstream_timeout = MINUTE).start(upstream).await;
    let mut body = world.head(order("k")).await.into_body();
    tokio::time::advance(10 * MINUTE).await;
    feed.send(Ok("late".into())).unwrap();
    assert_eq!(next(&mut body).await, "late");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_slows_the_upstream_down() {
    let (feed, upstream) = feeding(event_stream);
    let world = World::of(upstream).await;
    let mut body = world.head(order("k")).await.into_body();
    for number in 0..100 {
        feed.send(Ok(number.to_string().into())).unwrap();
    }
    drop(feed);
    settle().await;
    for number in 0..100 {
        assert_eq!(next(&mut body).await, number.to_string());
    }
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_breaks_for_its_client_and_stays_completed() {
    let (feed, upstream) = feeding(event_stream);
    let world = World::of(upstream).await;
    let mut body = world.head(order("k")).await.into_body();
    feed.send(Ok("a".into())).unwrap();
    feed.send(Err("reset".into())).unwrap();
    assert_eq!(next(&mut body).await, "a");
    assert_eq!(body.frame().await.unwrap().unwrap_err().to_string(), "reset");
    assert_not_stored(&world, 200).await;
}

#[tokio::test(start_paused = true)]
async fn a_first_client_that_was_told_to_come_back_has_no_part_in_the_stream() {
    let world = World::of(Upstream::new(|_| async {
        tokio::time::sleep(2 * MINUTE).await;
        let (feed, body) = fed();
        feed.send(Ok("a".into())).unwrap();
        Ok(event_stream().body(body).unwrap())
    }))
    .await;
    assert_eq!(problem(&world.send(order("k")).await), Some("in-progress"));
    tokio::time::sleep(2 * MINUTE).await;
    assert_not_stored(&world, 200).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_waited_for_a_streamed_answer_that_allows_a_retry_is_told_to_retry() {
    let stream = |policy: &mut Policy| policy.recording.stream = true;
    let gate = Arc::new(tokio::sync::Notify::new());
    let opens = Arc::clone(&gate);
    let world = Setup::governed(stream).start(Upstream::new(move |number| {
        let gate = Arc::clone(&opens);
        async move {
            if number > 0 {
                return Ok(created("done"));
            }
            gate.notified().await;
            Ok(Response::builder().status(429).body(crate::bodies::full("slow down")).unwrap())
        }
    }));
    let world = world.await;
    let (first, waiter) = (world.spawn(order("k")), world.spawn(order("k")));
    settle().await;
    gate.notify_one();
    assert_eq!(first.await.unwrap().body(), "slow down");
    let waiter = waiter.await.unwrap();
    assert_eq!((waiter.status().as_u16(), problem(&waiter)), (202, Some("in-progress")));
    assert_eq!(world.send(order("k")).await.body(), "done");
}
