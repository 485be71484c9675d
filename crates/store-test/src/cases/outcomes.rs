//! Outcomes: the whole transition table, fencing, lost acknowledgements, and what comes late (E4, E5, D3, A3).

use oncekey_core::{Event, Refusal, State, transition};
use oncekey_store::{Outcome, Resolution, Resolved, StoreError};

use crate::{Fixture, fenced, samples, written};

const OUTCOMES: [Event; 3] = [Event::Complete, Event::Fail, Event::WriteOff];

fn outcome(event: Event) -> Outcome {
    let response = (event == Event::Complete).then(|| samples::response("answer"));
    Outcome { event, response }
}

/// Brings a new record into `state` by its own token.
async fn record_in(f: &Fixture, key: &str, state: State) -> oncekey_store::Claim {
    let claim = f.claimed("acc-1", key).await;
    let event = match state {
        State::Processing => return claim,
        State::Completed => Event::Complete,
        State::Failed => Event::Fail,
        State::Unknown => Event::WriteOff,
    };
    written(&f.store.record(claim.identity.id(), claim.token, outcome(event)).await);
    claim
}

/// Every outcome in every state does what [`transition`] says; what is refused leaves the record alone.
pub async fn outcomes_follow_the_transition_table(f: Fixture) {
    for state in State::ALL {
        for event in OUTCOMES {
            let claim = record_in(&f, &format!("{state}-{event:?}"), state).await;
            let before = f.found(&claim.identity).await.record;
            f.clock.advance(std::time::Duration::from_secs(1));
            let answer = f.other.record(claim.identity.id(), claim.token, outcome(event)).await;
            let after = f.found(&claim.identity).await.record;
            match transition(Some(state), event, true) {
                Ok(next) => {
                    let kept = if next == State::Unknown { claim.lifetimes.unknown_ttl } else { claim.lifetimes.ttl };
                    assert_eq!(written(&answer), f.now().after(kept), "{state} {event:?}");
                    assert_eq!((after.state, after.times.ended), (next, Some(f.now())), "{state} {event:?}");
                    assert_eq!(after.times.expires, Some(f.now().after(kept)), "{state} {event:?}");
                    assert_eq!(after.response_status, (event == Event::Complete).then_some(201), "{state} {event:?}");
                }
                Err(Refusal::AlreadyWritten) => {
                    assert_eq!(Some(written(&answer)), before.times.expires, "{state} {event:?}");
                    assert_eq!(after, before, "{state} {event:?}");
                }
                Err(_) => {
                    assert_eq!(fenced(answer).map(|found| found.record), Some(before.clone()), "{state} {event:?}");
                    assert_eq!(after, before, "{state} {event:?}");
                }
            }
        }
    }
}

/// No outcome under another token is written, in any state.
pub async fn another_token_is_fenced(f: Fixture) {
    for state in State::ALL {
        for event in OUTCOMES {
            let claim = record_in(&f, &format!("{state}-{event:?}"), state).await;
            let before = f.found(&claim.identity).await;
            let answer = f.store.record(claim.identity.id(), samples::token(), outcome(event)).await;
            assert_eq!(fenced(answer).map(|found| found.record), Some(before.record.clone()), "{state} {event:?}");
            let after = f.found(&claim.identity).await;
            assert_eq!((after.record, after.response), (before.record, before.response), "{state} {event:?}");
        }
    }
}

/// Only complete, fail and write-off end a claim.
pub async fn other_events_are_no_outcomes(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    let before = f.found(&claim.identity).await.record;
    for event in [Event::Claim, Event::Lapse, Event::ResolveCompleted, Event::ResolveFailed] {
        let answer = f.store.record(claim.identity.id(), claim.token, Outcome { event, response: None }).await;
        assert!(matches!(answer, Err(StoreError::NotApplied(_))), "{event:?}: {answer:?}");
    }
    assert_eq!(f.found(&claim.identity).await.record, before);
}

/// The acknowledgement of an outcome was lost: the repetition finds it written, with the same expiry and answer.
pub async fn a_repeated_outcome_is_written_once(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    let expires = written(&f.store.record(claim.identity.id(), claim.token, samples::completed("first")).await);
    f.clock.advance(std::time::Duration::from_mins(1));
    let again = f.other.record(claim.identity.id(), claim.token, samples::completed("second")).await;
    assert_eq!(written(&again), expires);
    assert_eq!(f.found(&claim.identity).await.response, Some(samples::response("first")));
}

/// Lapsed but not taken over, the token is still the record's: a late outcome counts (E4).
pub async fn a_late_outcome_counts_after_the_lapse(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    f.clock.advance(claim.lifetimes.run);
    assert_eq!(
        written(&f.store.record(claim.identity.id(), claim.token, samples::completed("late")).await),
        f.now().after(claim.lifetimes.ttl)
    );
    assert_eq!(f.found(&claim.identity).await.record.state, State::Completed);
}

/// Also after a sweep has marked the record `unknown`.
pub async fn a_late_outcome_counts_after_the_sweep(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    f.clock.advance(claim.lifetimes.run);
    assert_eq!(f.other.sweep(f.now(), 10).await.expect("swept").lapsed, 1);
    written(&f.store.record(claim.identity.id(), claim.token, samples::completed("late")).await);
    let found = f.found(&claim.identity).await;
    assert_eq!((found.record.state, found.response), (State::Completed, Some(samples::response("late"))));
}

/// An operator's `failed` leaves the token: a late outcome still counts until a retry claims.
pub async fn a_late_outcome_counts_after_an_operators_failed(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    let id = claim.identity.id();
    written(&f.store.record(id, claim.token, samples::written_off()).await);
    assert_eq!(f.other.resolve(id, Resolution::Failed).await.expect("resolved"), Resolved::Done);
    written(&f.store.record(id, claim.token, samples::completed("late")).await);
    assert_eq!(f.found(&claim.identity).await.record.state, State::Completed);
}

/// An operator's `completed` replaces the token: a late outcome is fenced, the operator's answer stays.
pub async fn an_operators_completed_fences(f: Fixture) {
    let claim = f.claimed("acc-1", "k").await;
    let id = claim.identity.id();
    written(&f.store.record(id, claim.token, samples::written_off()).await);
    let resolution = Resolution::Completed { response: samples::response("operator"), token: samples::token() };
    assert_eq!(f.other.resolve(id, resolution).await.expect("resolved"), Resolved::Done);
    for late in [samples::completed("late"), samples::failed(), samples::written_off()] {
        assert!(fenced(f.store.record(id, claim.token, late).await).is_some());
    }
    assert_eq!(f.found(&claim.identity).await.response, Some(samples::response("operator")));
}
