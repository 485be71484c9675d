//! What an execution's end means for its record and its retries (E3, E6, E7, E8).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use oncekey_core::State;
use oncekey_core::policy::StatusSet;
use oncekey_engine::NotExecuted;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::bodies::{fed, full, pieces};
use crate::harness::*;

/// An error with another one as its source.
#[derive(Debug)]
struct Wrapped(oncekey_tower::BodyError);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("wrapped")
    }
}

impl std::error::Error for Wrapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn proof_that_nothing_ran_anywhere_in_an_error_lets_the_retry_execute() {
    for depth in 0..3 {
        let upstream = Upstream::new(move |number| async move {
            if number > 0 {
                return Ok(created("done"));
            }
            let proof: oncekey_tower::BodyError = NotExecuted::because("refused").into();
            Err((0..depth).fold(proof, |error, _| Wrapped(error).into()))
        });
        let world = World::of(upstream).await;
        assert_eq!(problem(&world.send(order("k")).await), Some("upstream-unreachable"));
        assert_eq!(world.state("k").await, Some(State::Failed));
        let retry = world.send(order("k")).await;
        assert_eq!((retry.body().as_ref(), replayed(&retry)), (&b"done"[..], false));
        assert!(replayed(&world.send(order("k")).await));
    }
}

async fn assert_unknown(upstream: Upstream) {
    let world = World::of(upstream).await;
    for _ in 0..3 {
        let answer = world.send(order("k")).await;
        assert_eq!(problem(&answer), Some("outcome-unknown"));
        assert_eq!(world.state("k").await, Some(State::Unknown));
    }
    assert_eq!(world.runs(), 1, "a retry never executes");
}

#[tokio::test(start_paused = true)]
async fn any_other_error_leaves_the_outcome_unknown() {
    assert_unknown(Upstream::new(|_| async { Err("connection reset".into()) })).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_cut_short_leaves_the_outcome_unknown() {
    let cut = || Response::new(pieces([Ok("half".into()), Err("reset")]));
    assert_unknown(Upstream::answering(cut)).await;
    assert_unknown(Upstream::answering(|| Response::new(pieces([Err("reset")])))).await;
}

#[tokio::test(start_paused = true)]
async fn proof_that_comes_after_the_head_of_an_answer_is_none() {
    let cut = || {
        let (feed, body) = fed();
        feed.send(Err(NotExecuted::because("says the body").into())).unwrap();
        Response::new(body)
    };
    assert_unknown(Upstream::answering(cut)).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_leaves_the_outcome_unknown() {
    assert_unknown(Upstream::new(|_| async { panic!("the test says so") })).await;
}

#[tokio::test(start_paused = true)]
async fn no_end_within_upstream_timeout_leaves_the_outcome_unknown() {
    for stalls_in_body in [false, true] {
        let upstream = Upstream::new(move |_| async move {
            if !stalls_in_body {
                std::future::pending::<()>().await;
            }
            let (feed, body) = fed();
            feed.send(Ok("half".into())).unwrap();
            std::mem::forget(feed);
            Ok(Response::new(body))
        });
        let limits = |policy: &mut oncekey_core::policy::Policy| {
            policy.timing.upstream_timeout = MINUTE;
            policy.timing.answer_timeout = 2 * MINUTE;
        };
        let world = Setup::governed(limits).start(upstream).await;
        assert_eq!(problem(&world.send(order("k")).await), Some("outcome-unknown"));
        assert_eq!(world.state("k").await, Some(State::Unknown));
    }
}

#[tokio::test(start_paused = true)]
async fn statuses_decide_whether_an_answer_is_recorded_repeated_or_unknown() {
    let cases = [
        (200, None, State::Completed),
        (400, None, State::Completed),
        (409, None, State::Completed),
        (500, None, State::Completed),
        (500, Some("1"), State::Completed),
        (401, None, State::Failed),
        (403, None, State::Failed),
        (408, None, State::Failed),
        (425, None, State::Failed),
        (429, Some("1"), State::Failed),
        (503, Some("1"), State::Failed),
        (503, None, State::Unknown),
        (502, None, State::Unknown),
        (504, Some("1"), State::Unknown),
    ];
    for (status, retry_after, state) in cases {
        let answer = move || {
            let builder = Response::builder().status(status).header("WWW-Authenticate", "Bearer");
            let builder = retry_after.into_iter().fold(builder, |builder, after| builder.header("Retry-After", after));
            builder.body(full("theirs")).unwrap()
        };
        let world = World::of(Upstream::answering(answer)).await;
        let first = world.send(order("k")).await;
        assert_eq!((first.status().as_u16(), first.body().as_ref()), (status, &b"theirs"[..]), "delivered as it is");
        assert_eq!((problem(&first), lines(&first, "WWW-Authenticate")), (None, vec!["Bearer"]));
        assert_eq!(lines(&first, "Oncekey-Operation-Id"), [id("k").to_string()]);
        assert_eq!(world.state("k").await, Some(state), "{status} {retry_after:?}");
        let retry = world.send(order("k")).await;
        let (runs, code) = match state {
            State::Completed => (1, None),
            State::Failed => (2, None),
            _ => (1, Some("outcome-unknown")),
        };
        assert_eq!((world.runs(), problem(&retry)), (runs, code), "{status} {retry_after:?}");
        assert_eq!(replayed(&retry), state == State::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_may_say_otherwise_of_a_status() {
    let world = Setup::governed(|policy| {
        policy.recording.retry_status = StatusSet::of(&[503, 201]);
        policy.recording.unknown_status = StatusSet::of(&[500]);
    });
    let world = world.start(Upstream::new(|number| async move {
        Ok(Response::builder().status([503, 201, 500][number]).body(full("")).unwrap())
    }));
    let world = world.await;
    for status in [503, 201, 500, 504] {
        assert_eq!(world.send(order("k")).await.status(), status);
    }
    assert_eq!(world.runs(), 3);
}

#[tokio::test(start_paused = true)]
async fn another_request_is_refused_in_every_state() {
    let (gate, held) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (opens, reached) = (Arc::clone(&gate), Arc::clone(&held));
    let upstream = Upstream::new(move |number| {
        let (gate, held) = (Arc::clone(&opens), Arc::clone(&reached));
        async move {
            match number {
                0 => Err("reset".into()),
                1 => Err(NotExecuted::because("refused").into()),
                2 => Ok(created("")),
                _ => {
                    held.notify_one();
                    gate.notified().await;
                    Ok(created(""))
                }
            }
        }
    });
    let world = World::of(upstream).await;
    for key in ["unknown", "failed", "completed"] {
        world.send(order(key)).await;
    }
    let runs = world.spawn(order("processing"));
    held.notified().await;
    for key in ["unknown", "failed", "completed", "processing"] {
        let other = post(key).header("Content-Type", "application/json").body(full(r#"{"amount":1}"#)).unwrap();
        let start = Instant::now();
        assert_eq!(problem(&world.send(other).await), Some("key-reused"), "{key}");
        assert_eq!(start.elapsed(), Duration::ZERO, "at once");
    }
    gate.notify_one();
    assert_eq!(runs.await.unwrap().status(), 201);
    assert_eq!(world.runs(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_changes_nothing() {
    let gate = Arc::new(Notify::new());
    let opens = Arc::clone(&gate);
    let world = World::of(Upstream::new(move |_| {
        let gate = Arc::clone(&opens);
        async move {
            gate.notified().await;
            Ok(created("done"))
        }
    }))
    .await;
    let client = world.spawn(order("k"));
    settle().await;
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
    gate.notify_one();
    settle().await;
    let retry = world.send(order("k")).await;
    assert_eq!((retry.body().as_ref(), replayed(&retry), world.runs()), (&b"done"[..], true, 1));
}
