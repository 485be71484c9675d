//! Duplicates while the first request runs (rules W).

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use oncekey_engine::NotExecuted;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::bodies::{TestBody, full};
use crate::harness::*;

/// An upstream that answers each call once the gate lets it.
fn gated(answer: impl Fn(usize) -> Answered + Send + Sync + 'static) -> (Arc<Notify>, Upstream) {
    let gate = Arc::new(Notify::new());
    let opens = Arc::clone(&gate);
    let answer = Arc::new(answer);
    let upstream = Upstream::new(move |number| {
        let (gate, answer) = (Arc::clone(&opens), Arc::clone(&answer));
        async move {
            gate.notified().await;
            answer(number)
        }
    });
    (gate, upstream)
}

#[tokio::test(start_paused = true)]
async fn twenty_at_once_are_one_execution_and_one_answer() {
    let (gate, upstream) = gated(|_| Ok(created("once")));
    let world = World::of(upstream).await;
    let clients: Vec<_> = (0..20).map(|_| world.spawn(order("k"))).collect();
    settle().await;
    gate.notify_one();
    let mut first = 0;
    for client in clients {
        let answer = client.await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.body().as_ref()), (201, &b"once"[..]));
        first += usize::from(!replayed(&answer));
    }
    assert_eq!((first, world.runs()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_waits_as_long_as_its_route_says_and_the_first_as_long_as_answer_timeout() {
    let (gate, upstream) = gated(|_| Ok(created("late")));
    let world = Setup::governed(|policy| policy.timing.wait = Duration::from_secs(3)).start(upstream).await;
    let start = Instant::now();
    let first = world.spawn(order("k"));
    settle().await;
    assert_eq!(world.send(order("k")).await.status(), 202);
    assert_eq!(start.elapsed().as_secs(), 3);
    assert_eq!(first.await.unwrap().status(), 202);
    assert_eq!(start.elapsed().as_secs(), 60);
    gate.notify_one();
    let retry = world.send(order("k")).await;
    assert_eq!((retry.body().as_ref(), replayed(&retry), world.runs()), (&b"late"[..], true, 1));
}

#[tokio::test(start_paused = true)]
async fn past_max_waiters_a_duplicate_is_told_to_come_back_at_once() {
    let (gate, upstream) = gated(|_| Ok(created("once")));
    let world = Setup::governed(|policy| policy.max_waiters = 1).start(upstream).await;
    let (first, waiter) = (world.spawn(order("k")), world.spawn(order("k")));
    settle().await;
    let start = Instant::now();
    assert_eq!(world.send(order("k")).await.status(), 202);
    assert_eq!(start.elapsed(), Duration::ZERO);
    gate.notify_one();
    assert_eq!(
        (first.await.unwrap().status(), waiter.await.unwrap().status()),
        (created("").status(), created("").status())
    );
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_get_an_answer_that_allows_a_retry_and_the_retry_runs() {
    let busy = || Response::builder().status(429).header("Retry-After", "9").body(full("busy")).unwrap();
    let (gate, upstream) = gated(move |number| Ok(if number == 0 { busy() } else { created("done") }));
    let world = World::of(upstream).await;
    let clients: Vec<_> = (0..3).map(|_| world.spawn(order("k"))).collect();
    settle().await;
    gate.notify_one();
    for (index, client) in clients.into_iter().enumerate() {
        let answer = client.await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.body().as_ref()), (429, &b"busy"[..]));
        assert_eq!(lines(&answer, "Retry-After"), ["9"]);
        assert_eq!(replayed(&answer), index > 0);
    }
    gate.notify_one();
    assert_eq!(world.send(order("k")).await.body(), "done");
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_hear_that_the_outcome_is_unknown() {
    let (gate, upstream) = gated(|_| Err("reset".into()));
    let world = World::of(upstream).await;
    let clients: Vec<_> = (0..3).map(|_| world.spawn(order("k"))).collect();
    settle().await;
    gate.notify_one();
    for client in clients {
        assert_eq!(problem(&client.await.unwrap()), Some("outcome-unknown"));
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_takes_over_when_nothing_was_sent_and_gets_its_own_spelling_of_the_key() {
    let (gate, upstream) = gated(|number| match number {
        0 => Err(NotExecuted::because("refused").into()),
        _ => Ok(created(format!("run {number}"))),
    });
    let world = World::of(upstream).await;
    let first = world.spawn(order("\"k\""));
    settle().await;
    let heir = world.spawn(order("k"));
    settle().await;
    let waiter = world.spawn(order("\"k\";p"));
    settle().await;
    gate.notify_one();
    let first = first.await.unwrap();
    assert_eq!((problem(&first), lines(&first, "Idempotency-Key")), (Some("upstream-unreachable"), vec!["\"k\""]));
    gate.notify_one();
    let heir = heir.await.unwrap();
    assert_eq!((heir.body().as_ref(), replayed(&heir)), (&b"run 1"[..], false));
    assert_eq!(lines(&heir, "Idempotency-Key"), ["k"], "its own, not that of the request that was executed");
    let waiter = waiter.await.unwrap();
    assert_eq!((waiter.body().as_ref(), replayed(&waiter)), (&b"run 1"[..], true));
    assert_eq!(lines(&waiter, "Idempotency-Key"), ["\"k\";p"]);
}

/// A megabyte under key `k`.
fn large() -> http::Request<TestBody> {
    post("k").body(full(vec![7; 1024 * 1024])).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_waiter_holds_no_body() {
    let (gate, upstream) = gated(|_| Ok(created("once")));
    // Room for two of the bodies: the first request's and one that is being read.
    let setup = Setup { budget: 3 * 1024 * 1024 + 3072, ..Setup::governed(|policy| policy.timing.wait = MINUTE) };
    let world = setup.start(upstream).await;
    let clients: Vec<_> = (0..20).map(|_| world.spawn(large())).collect();
    settle().await;
    gate.notify_one();
    let start = Instant::now();
    for client in clients {
        assert_eq!(client.await.unwrap().body(), "once");
    }
    assert_eq!(start.elapsed(), Duration::ZERO, "nobody waited for room");
}
