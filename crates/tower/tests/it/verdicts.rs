//! The upstream's own verdict in `Oncekey-Outcome` (E11), and what a client is told of outcomes that a retry may settle (E7).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use oncekey_core::policy::{OnUnknown, Policy};
use oncekey_core::response::RecordedBody;
use oncekey_core::{RecordedResponse, State};
use oncekey_engine::{Probe, Probed};
use parking_lot::Mutex;

use crate::bodies::{TestBody, fed, full, pieces};
use crate::harness::*;

fn trusting(policy: &mut Policy) {
    policy.recording.trust_outcome = true;
}

fn told(status: u16, outcome: &[&str], body: TestBody) -> Response<TestBody> {
    let answer = Response::builder().status(status).header("X-Theirs", "yes");
    let answer = outcome.iter().fold(answer, |answer, word| answer.header("Oncekey-Outcome", *word));
    answer.body(body).unwrap()
}

/// How a first answer with this status and these verdicts leaves the record; the answer itself must be delivered as it is.
async fn leaves(trusted: bool, status: u16, outcome: &'static [&'static str]) -> State {
    let setup = Setup::governed(|policy| policy.recording.trust_outcome = trusted);
    let world = setup.start(Upstream::answering(move || told(status, outcome, full("theirs")))).await;
    let first = world.send(order("k")).await;
    assert_eq!((first.status().as_u16(), first.body().as_ref()), (status, &b"theirs"[..]));
    assert_eq!((lines(&first, "X-Theirs"), lines(&first, "Oncekey-Outcome")), (vec!["yes"], vec![]));
    let state = world.state("k").await.expect("a record");
    let retry = world.send(order("k")).await;
    assert_eq!(lines(&retry, "Oncekey-Outcome"), Vec::<&str>::new());
    let (runs, code) = match state {
        State::Completed => (1, None),
        State::Failed => (2, None),
        _ => (1, Some("outcome-unknown")),
    };
    assert_eq!((world.runs(), problem(&retry), replayed(&retry)), (runs, code, state == State::Completed));
    state
}

#[tokio::test(start_paused = true)]
async fn a_trusted_verdict_goes_before_the_status() {
    for status in [200, 429, 500, 502, 503] {
        assert_eq!(leaves(true, status, &["completed"]).await, State::Completed, "{status}");
        assert_eq!(leaves(true, status, &["failed"]).await, State::Failed, "{status}");
        assert_eq!(leaves(true, status, &["unknown"]).await, State::Unknown, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_is_not_trusted_or_not_understood_changes_nothing() {
    for (status, state) in [(200, State::Completed), (429, State::Failed), (502, State::Unknown)] {
        for word in ["completed", "failed", "unknown"] {
            let outcome: &'static [_] = Box::leak(Box::new([word]));
            assert_eq!(leaves(false, status, outcome).await, state, "{status} {word}");
        }
        for outcome in [&["Failed"][..], &["done"], &[""], &["completed", "failed"], &["completed", "completed"]] {
            assert_eq!(leaves(true, status, outcome).await, state, "{status} {outcome:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_trusted_verdict_goes_before_an_answer_cut_short() {
    for (word, state, runs) in [("completed", State::Completed, 1), ("failed", State::Failed, 2)] {
        let cut = move || told(200, &[word], pieces([Ok("half of ".into()), Err("reset")]));
        let world = Setup::governed(trusting).start(Upstream::answering(cut)).await;
        let first = world.head(order("k")).await;
        assert_eq!((first.status(), problem(&first)), (StatusCode::OK, None));
        let mut body = first.into_body();
        let piece = body.frame().await.expect("a piece").expect("what came").into_data().expect("data");
        assert_eq!(piece, Bytes::from("half of "));
        assert!(body.frame().await.expect("an end").is_err(), "it is as cut as it came");
        assert_eq!(world.state("k").await, Some(state));
        let retry = world.head(order("k")).await;
        assert_eq!(problem(&retry), if runs == 1 { Some("response-not-stored") } else { None });
        assert_eq!(world.runs(), runs);
    }
}

/// How an answer that stops in the middle is answered and recorded, with this verdict in its head.
async fn stalled(outcome: &'static [&'static str]) -> (Option<String>, Option<State>) {
    let setup = Setup::governed(|policy| {
        trusting(policy);
        policy.timing.upstream_timeout = MINUTE / 2;
    });
    let kept = Arc::new(Mutex::new(Vec::new()));
    let stalling = {
        let kept = Arc::clone(&kept);
        move || {
            let (feed, body) = fed();
            feed.send(Ok("half of ".into())).expect("it is read");
            kept.lock().push(feed);
            told(200, outcome, body)
        }
    };
    let world = setup.start(Upstream::answering(stalling)).await;
    let first = world.head(order("k")).await;
    let code = problem(&first).map(str::to_owned);
    if code.is_none() {
        let piece = first.into_body().frame().await.expect("a piece").expect("what came").into_data().expect("data");
        assert_eq!(piece, Bytes::from("half of "));
    }
    (code, world.state("k").await)
}

#[tokio::test(start_paused = true)]
async fn a_trusted_verdict_goes_before_the_end_of_the_executions_time() {
    assert_eq!(stalled(&["completed"]).await, (None, Some(State::Completed)));
    assert_eq!(stalled(&["failed"]).await, (None, Some(State::Failed)));
    for outcome in [&[][..], &["unknown"]] {
        assert_eq!(stalled(outcome).await, (Some("outcome-unknown".to_owned()), Some(State::Unknown)));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_verdict_that_settles_it_an_answer_cut_short_is_unknown() {
    for outcome in [&[][..], &["unknown"], &["done"]] {
        let cut = move || told(200, outcome, pieces([Ok("half of ".into()), Err("reset")]));
        let world = Setup::governed(trusting).start(Upstream::answering(cut)).await;
        assert_eq!(problem(&world.send(order("k")).await), Some("outcome-unknown"));
        assert_eq!(world.state("k").await, Some(State::Unknown));
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_answer_whose_status_says_otherwise_than_its_verdict_is_not_called_in_progress_for_ever() {
    let streaming = |policy: &mut Policy| {
        trusting(policy);
        policy.recording.stream = true;
    };
    let world = Setup::governed(streaming).start(Upstream::answering(|| told(503, &["completed"], full("theirs"))));
    let world = world.await;
    assert_eq!(world.send(order("k")).await.status(), 503);
    assert_eq!(problem(&world.send(order("k")).await), Some("response-not-stored"));
    assert_eq!(world.runs(), 1);
}

/// Fails like a cut connection the first time, and creates after that.
fn cut_once() -> Upstream {
    Upstream::new(|number| async move { if number == 0 { Err("reset".into()) } else { Ok(created("again")) } })
}

#[tokio::test(start_paused = true)]
async fn under_retry_an_unknown_outcome_says_when_to_come_back_and_the_next_attempt_bears_its_number() {
    let setup = Setup::governed(|policy| policy.on_unknown = OnUnknown::Retry);
    let world = setup.start(cut_once()).await;
    let first = world.send(order("k")).await;
    assert_eq!((first.status().as_u16(), problem(&first)), (504, Some("outcome-unknown")));
    assert_eq!(lines(&first, "Retry-After"), ["2"]);
    let retry = world.send(order("k")).await;
    assert_eq!((retry.status().as_u16(), replayed(&retry)), (201, false));
    let seen = world.seen.lock();
    let sent = |name: &str| seen.iter().map(|request| request.headers()[name].clone()).collect::<Vec<_>>();
    assert_eq!(sent("oncekey-attempt"), ["1", "2"]);
    assert_eq!(sent("idempotency-key"), ["k", "k"]);
    assert_eq!(sent("oncekey-operation-id"), [id("k").to_string().as_str(); 2]);
}

#[tokio::test(start_paused = true)]
async fn under_hold_or_once_the_attempts_are_used_up_it_does_not() {
    for on_unknown in [OnUnknown::Hold, OnUnknown::Retry] {
        let setup = Setup::governed(|policy| {
            policy.on_unknown = on_unknown;
            policy.max_attempts = 1;
        });
        let world = setup.start(cut_once()).await;
        for _ in 0..2 {
            let answer = world.send(order("k")).await;
            assert_eq!((problem(&answer), lines(&answer, "Retry-After")), (Some("outcome-unknown"), vec![]));
        }
        assert_eq!(world.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn under_probe_the_answer_of_the_probe_is_given_as_a_replay() {
    let mut route = governed("/orders", |policy| policy.on_unknown = OnUnknown::Probe { settle: MINUTE });
    route.probe = Some(Probe::new(|identity| {
        assert_eq!((identity.scope.value(), identity.key.as_str()), ("acc-1", "k"));
        Box::pin(async {
            let headers = HeaderMap::from_iter([("x-theirs".parse().unwrap(), "yes".parse().unwrap())]);
            let recording = &Policy::default().recording;
            let body = RecordedBody::Stored("order 7".into());
            Probed::Completed(RecordedResponse::of(StatusCode::OK, &headers, body, recording).into())
        })
    }));
    let world = Setup { routes: vec![route], ..Setup::default() }.start(cut_once()).await;
    let first = world.send(order("k")).await;
    assert_eq!((problem(&first), lines(&first, "Retry-After")), (Some("outcome-unknown"), vec!["2"]));
    let retry = world.send(order("k")).await;
    assert_eq!((retry.status().as_u16(), retry.body().as_ref()), (200, &b"order 7"[..]));
    assert!(replayed(&retry));
    assert_eq!((lines(&retry, "X-Theirs"), lines(&retry, "Idempotency-Key")), (vec!["yes"], vec!["k"]));
    assert_eq!(world.runs(), 1);
}
