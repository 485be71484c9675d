//! The judge itself: it lets right stories pass, and finds each kind of wrong one.

use http::{HeaderMap, StatusCode};
use oncekey_testkit::Answer;

use super::{Ran, RecordRow, Seen, Tally, judge};

/// An answer: the upstream's, if there is no problem's code.
fn answer(body: &str, replay: bool, problem: Option<&str>) -> Answer {
    let mut headers = HeaderMap::new();
    if replay {
        headers.insert("idempotent-replayed", "true".parse().expect("a value"));
    }
    if let Some(code) = problem {
        headers.insert("oncekey-problem", code.parse().expect("a value"));
    }
    let status = if problem.is_some() { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::CREATED };
    Answer { status, headers, body: body.to_owned().into(), trailers: HeaderMap::new() }
}

fn judged(seen: &[Seen], executions: u32, state: &str) -> Result<(), String> {
    let response_status = (state == "completed").then_some(201);
    let record = RecordRow { state: state.to_owned(), response_status, ..RecordRow::default() };
    let ran = Ran { executions, effects: executions.min(1), most: 1 };
    judge(seen, ran, &record, &mut Tally::default())
}

#[test]
fn the_judge_tells_effects_from_executions() {
    let seen = [Some(answer("1", false, None)), Some(answer("1", true, None))];
    let record = RecordRow { state: "completed".to_owned(), response_status: Some(201), ..RecordRow::default() };
    let judged =
        |executions, effects| judge(&seen, Ran { executions, effects, most: 3 }, &record, &mut Tally::default());
    assert_eq!(judged(3, 1), Ok(()));
    assert!(judged(4, 1).is_err_and(|why| why.contains("executed 4 times")));
    assert!(judged(2, 2).is_err_and(|why| why.contains("took effect 2 times")));
}

#[test]
fn the_judge_lets_right_stories_pass() {
    let (first, replay) = (Some(answer("1", false, None)), Some(answer("1", true, None)));
    let unknown = Some(answer("", false, Some("outcome-unknown")));
    for (seen, executions, state) in [
        (vec![first.clone(), replay.clone()], 1, "completed"),
        (vec![None, replay.clone()], 1, "completed"),
        (vec![unknown.clone(), first, replay], 1, "completed"),
        (vec![None, unknown.clone()], 1, "unknown"),
        (vec![unknown], 0, "unknown"),
    ] {
        assert_eq!(judged(&seen, executions, state), Ok(()), "{seen:?}");
    }
}

#[test]
fn the_judge_finds_each_kind_of_wrong_story() {
    let (first, replay) = (Some(answer("1", false, None)), Some(answer("1", true, None)));
    let unknown = Some(answer("", false, Some("outcome-unknown")));
    for (seen, executions, state, why) in [
        (vec![first.clone(), replay.clone()], 2, "completed", "executed 2 times"),
        (vec![first.clone(), Some(answer("2", true, None))], 1, "completed", "the answer changed"),
        (vec![first.clone(), first.clone(), replay.clone()], 1, "completed", "claim to be the first"),
        (vec![first.clone(), unknown.clone()], 1, "unknown", "given, and then called unknown"),
        (vec![first.clone(), None, replay.clone()], 1, "unknown", "after 1 executions"),
        (vec![first, replay.clone()], 0, "completed", "after 0 executions"),
        (vec![replay.clone()], 1, "processing", "after 1 executions"),
        (vec![unknown.clone()], 1, "completed", "after 1 executions"),
        (vec![replay, None], 1, "completed", "not answered"),
        (vec![Some(answer("", false, Some("overloaded"))), unknown], 1, "unknown", "nothing here calls for"),
    ] {
        let found = judged(&seen, executions, state).expect_err(why);
        assert!(found.contains(why), "{found} instead of {why}");
    }
}
