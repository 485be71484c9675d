//! The memory for bodies: bounded, shared fairly, and given back (W3, E3).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::bodies::{TestBody, Untouched, chunked, fed, full, pieces};
use crate::harness::*;

const KIB: usize = 1024;

/// Room for one request of 200 KiB and for one answer of 100 KiB at a time.
const TINY: u64 = 300 * 1024;

fn large(key: &str) -> Request<TestBody> {
    post(key).body(full(vec![7; 150 * KIB])).unwrap()
}

pub(crate) fn gated(answer: impl Fn() -> Response<TestBody> + Send + Sync + 'static) -> (Arc<Notify>, Upstream) {
    let gate = Arc::new(Notify::new());
    let opens = Arc::clone(&gate);
    let answer = Arc::new(answer);
    let upstream = Upstream::new(move |_| {
        let (gate, answer) = (Arc::clone(&opens), Arc::clone(&answer));
        async move {
            gate.notified().await;
            Ok(answer())
        }
    });
    (gate, upstream)
}

async fn tiny(upstream: Upstream) -> World {
    Setup { budget: TINY, ..Setup::default() }.start(upstream).await
}

/// Whether a large request finds room at once.
async fn has_room(world: &World, key: &str) -> bool {
    let client = world.spawn(large(key));
    settle().await;
    let claimed = world.state(key).await.is_some();
    client.abort();
    settle().await;
    claimed
}

#[tokio::test(start_paused = true)]
async fn requests_past_the_budget_queue_in_order_and_none_is_lost() {
    let (gate, upstream) = gated(|| created(vec![7; 90 * KIB]));
    let world = tiny(upstream).await;
    let clients: Vec<_> = (0..20).map(|number| world.spawn(large(&format!("k-{number}")))).collect();
    for (number, client) in clients.into_iter().enumerate() {
        settle().await;
        assert_eq!(world.runs(), number + 1, "one at a time");
        gate.notify_one();
        let answer = client.await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.body().len()), (201, 90 * KIB));
    }
}

#[tokio::test(start_paused = true)]
async fn small_bodies_never_queue() {
    let (_gate, upstream) = gated(|| created(""));
    let world = tiny(upstream).await;
    let _clients: Vec<_> =
        (0..20).map(|n| world.spawn(post(&format!("k-{n}")).body(full(vec![7; 64 * KIB])).unwrap())).collect();
    settle().await;
    assert_eq!(world.runs(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_stays_full_is_overloaded_in_bounded_time_and_claims_nothing() {
    let (_gate, upstream) = gated(|| created(""));
    let world = tiny(upstream).await;
    let first = world.spawn(large("first"));
    settle().await;
    let start = Instant::now();
    let answer = world.send(post("k").body(Untouched(150 * 1024)).unwrap()).await;
    assert_eq!((problem(&answer), start.elapsed()), (Some("overloaded"), MINUTE));
    assert_eq!((world.runs(), world.state("k").await), (1, None));
    assert_eq!(first.await.unwrap().status(), 202);
}

#[tokio::test(start_paused = true)]
async fn a_body_of_unknown_length_takes_room_for_the_largest_once_it_is_not_small() {
    let world = tiny(Upstream::counting()).await;
    let (feed, body) = fed();
    let chunks = world.spawn(post("chunks").body(body).unwrap());
    feed.send(Ok(vec![7; 64 * KIB].into())).unwrap();
    assert!(has_room(&world, "k-0").await);
    feed.send(Ok("a".into())).unwrap();
    settle().await;
    assert!(!has_room(&world, "k-1").await);
    drop(feed);
    assert_eq!(chunks.await.unwrap().status(), 201);
    assert!(has_room(&world, "k-2").await);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_refused_in_bounded_time_and_gives_its_room_back() {
    let world = tiny(Upstream::counting()).await;
    let (_feed, body) = fed();
    let start = Instant::now();
    assert_eq!(problem(&world.send(post("k").body(body).unwrap()).await), Some("request-invalid"));
    assert_eq!((start.elapsed(), world.state("k").await), (MINUTE, None));
    assert!(has_room(&world, "k-2").await);
}

#[tokio::test(start_paused = true)]
async fn a_chunked_body_over_max_request_is_refused_as_soon_as_it_is() {
    let world = Setup::guarded(|guard| guard.max_request = 5).start(Upstream::counting()).await;
    assert_eq!(world.send(post("five").body(chunked([b"ab", b"cde"])).unwrap()).await.status(), 201);
    let over = pieces([Ok("abc".into()), Ok("def".into()), Err("it is read no further")]);
    assert_eq!(problem(&world.send(post("k").body(over).unwrap()).await), Some("body-too-large"));
    assert_eq!((world.runs(), world.state("k").await), (1, None));
}

#[tokio::test(start_paused = true)]
async fn clients_that_leave_give_their_room_back() {
    let (gate, upstream) = gated(|| created(vec![7; 90 * KIB]));
    let world = tiny(upstream).await;
    let leave = |client: JoinHandle<Response<Bytes>>| async move {
        settle().await;
        client.abort();
        settle().await;
    };
    let (_feed, body) = fed();
    leave(world.spawn(post("half-sent").body(body).unwrap())).await;
    let executing = world.spawn(large("k-1"));
    settle().await;
    leave(world.spawn(large("queued"))).await;
    leave(executing).await;
    gate.notify_one();
    settle().await;
    assert_eq!(world.runs(), 1, "what ran has run to its end");
    let answer = world.spawn(large("k-2"));
    settle().await;
    gate.notify_one();
    assert_eq!(answer.await.unwrap().body().len(), 90 * KIB);
}

#[tokio::test(start_paused = true)]
async fn answers_wait_for_room_and_all_are_given() {
    let world = tiny(Upstream::answering(|| created(vec![7; 90 * KIB]))).await;
    let slow = world.head(order("slow")).await;
    let second = world.spawn(order("k"));
    settle().await;
    assert!(!second.is_finished(), "the slow client's answer still takes the room");
    drop(slow);
    assert_eq!(second.await.unwrap().body().len(), 90 * KIB);
    assert_eq!(world.send(order("k")).await.body().len(), 90 * KIB);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_finds_no_room_is_delivered_whole_and_not_stored() {
    for known_length in [true, false] {
        let answer = move || {
            let piece = || Ok::<_, &str>(Bytes::from(vec![7; 45 * KIB]));
            let body = if known_length { full(vec![7; 90 * KIB]) } else { pieces([piece(), piece()]) };
            Response::builder().status(201).body(body).unwrap()
        };
        let world = tiny(Upstream::answering(answer)).await;
        let stuck = world.head(order("stuck")).await;
        let client = world.spawn(order("k"));
        tokio::time::sleep(6 * MINUTE).await;
        assert!(world.state("k").await == Some(oncekey_core::State::Completed), "and not unknown, ever");
        assert_eq!(client.await.unwrap().status(), 202, "its first client was told to come back long before");
        assert_eq!(problem(&world.send(order("k")).await), Some("response-not-stored"));
        drop(stuck);
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_without_room_says_that_the_operation_is_completed() {
    let world = tiny(Upstream::answering(|| created(vec![7; 90 * KIB]))).await;
    world.send(order("k")).await;
    let stuck = world.head(order("stuck")).await;
    let answer = world.send(order("k")).await;
    assert_eq!((problem(&answer), lines(&answer, "Retry-After")), (Some("overloaded"), vec!["2"]));
    assert_eq!(lines(&answer, "Oncekey-Operation-Id"), [id("k").to_string()]);
    let json: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
    assert!(json["detail"].as_str().unwrap().contains("is completed"), "{json}");
    drop(stuck);
    assert!(replayed(&world.send(order("k")).await));
}

#[tokio::test(start_paused = true)]
async fn answers_that_give_the_same_bytes_take_room_for_them_once() {
    let (gate, upstream) = gated(|| created(vec![7; 90 * KIB]));
    let world = tiny(upstream).await;
    let clients: Vec<_> = (0..20).map(|_| world.spawn_head(order("k"))).collect();
    settle().await;
    gate.notify_one();
    let mut answers = Vec::new();
    for client in clients {
        answers.push(client.await.unwrap());
    }
    answers.push(world.head(order("k")).await);
    let other = world.spawn(order("other"));
    settle().await;
    gate.notify_one();
    settle().await;
    assert!(!other.is_finished(), "the room is taken until the last of them is given");
    for answer in answers {
        let answer = whole(answer).await;
        assert_eq!((answer.status().as_u16(), answer.body().len()), (201, 90 * KIB));
    }
    assert_eq!(other.await.unwrap().body().len(), 90 * KIB);
}

#[tokio::test(start_paused = true)]
async fn what_was_held_of_a_streamed_answer_takes_room_until_its_client_has_it() {
    let world = Setup { budget: 600 * 1024, ..Setup::governed(|policy| policy.recording.max_response = 150 * 1024) };
    let chunks = || Response::new(pieces([100, 100].map(|kib| Ok(Bytes::from(vec![7; kib * KIB])))));
    let world = world.start(Upstream::new(move |number| async move {
        Ok(if number == 0 { chunks() } else { created(vec![7; 100 * KIB]) })
    }));
    let world = world.await;
    let unread = world.head(order("stream")).await;
    let second = world.spawn(order("k"));
    settle().await;
    assert!(!second.is_finished(), "150 of 200 KiB are taken");
    assert_eq!(whole(unread).await.body().len(), 200 * KIB);
    assert_eq!(second.await.unwrap().status(), 201);
}

#[tokio::test(start_paused = true)]
async fn requests_and_answers_do_not_block_each_other() {
    let world = tiny(Upstream::new(|_| async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        Ok(created(vec![7; 95 * KIB]))
    }))
    .await;
    let clients: Vec<_> = (0..50).map(|number| world.spawn(large(&format!("k-{number}")))).collect();
    for client in clients {
        let answer = client.await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.body().len()), (201, 95 * KIB));
    }
}
