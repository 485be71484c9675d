//! What may be done about an unknown outcome under which policy (E7), what a policy costs its promise (G1), and the
//! upstream's own verdict (E11).

use std::time::Duration;

use http::HeaderMap;
use oncekey_core::policy::{OnStoreError, OnUnknown, Policy, Recording, Remedy, Verdict};
use oncekey_core::{PromiseClass, Record, State, Timestamp};

use crate::standing::record;

const SETTLE: Duration = Duration::from_micros(100);

fn under(on_unknown: OnUnknown) -> Policy {
    Policy { on_unknown, max_attempts: 3, ..Policy::default() }
}

fn after(attempts: u32, state: State) -> Record {
    Record { attempts, ..record(state, None) }
}

fn remedy(policy: &Policy, record: &Record, now: i64) -> Remedy {
    policy.remedy(record, Timestamp::from_micros(now), true)
}

#[test]
fn held_outcomes_stay_held() {
    let policy = under(OnUnknown::Hold);
    assert_eq!(remedy(&policy, &after(1, State::Unknown), i64::MAX), Remedy::Hold);
    assert!(!policy.settles(1));
}

#[test]
fn a_retry_executes_again_until_the_attempts_are_used_up() {
    let policy = under(OnUnknown::Retry);
    for (attempts, expected) in [(1, Remedy::Execute), (2, Remedy::Execute), (3, Remedy::Hold), (9, Remedy::Hold)] {
        assert_eq!(remedy(&policy, &after(attempts, State::Unknown), 0), expected, "{attempts}");
        assert_eq!(policy.settles(attempts), expected == Remedy::Execute, "{attempts}");
    }
}

#[test]
fn a_lapse_by_a_clock_that_ran_ahead_is_not_executed_again() {
    let policy = under(OnUnknown::Retry);
    let judged = |state| policy.remedy(&after(1, state), Timestamp::from_micros(0), false);
    assert_eq!((judged(State::Processing), judged(State::Unknown)), (Remedy::Wait, Remedy::Execute));
}

#[test]
fn a_probe_may_be_followed_by_an_execution_once_it_has_settled_and_while_attempts_are_left() {
    let policy = under(OnUnknown::Probe { settle: SETTLE });
    for state in [State::Unknown, State::Processing] {
        for (attempts, now, may_execute) in [(1, 99, false), (1, 100, true), (2, 100, true), (3, 100, false)] {
            assert_eq!(remedy(&policy, &after(attempts, state), now), Remedy::Ask { may_execute }, "{attempts} {now}");
        }
        let distrusted = policy.remedy(&after(1, state), Timestamp::from_micros(100), false);
        assert_eq!(distrusted, Remedy::Ask { may_execute: false });
    }
    assert!(policy.settles(99), "an answer can still come");
}

#[test]
fn a_policy_that_may_execute_again_promises_less() {
    let class = |on_unknown| under(on_unknown).shortfalls().first().map(|shortfall| shortfall.class);
    assert_eq!(class(OnUnknown::Hold), None);
    assert_eq!(class(OnUnknown::Retry), Some(PromiseClass::BestEffort));
    assert_eq!(class(OnUnknown::Probe { settle: SETTLE }), Some(PromiseClass::AtMostOnceUntilFailover));
    let open = Policy { on_store_error: OnStoreError::Open, ..under(OnUnknown::Probe { settle: SETTLE }) };
    let classes: Vec<_> = open.shortfalls().iter().map(|shortfall| shortfall.class).collect();
    assert_eq!(classes, [PromiseClass::AtMostOnceUntilFailover, PromiseClass::BestEffort]);
}

#[test]
fn the_upstreams_verdict_counts_where_it_is_trusted_and_understood() {
    let told = |trust_outcome, lines: &[&str]| {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append("oncekey-outcome", line.parse().unwrap());
        }
        Recording { trust_outcome, ..Recording::default() }.told(&headers).ok()
    };
    let words = [("completed", Verdict::Completed), ("failed", Verdict::Failed), ("unknown", Verdict::Unknown)];
    for (word, verdict) in words {
        assert_eq!(told(true, &[word]), Some(Some(verdict)));
        assert_eq!(told(false, &[word]), Some(None));
    }
    assert_eq!(told(true, &[]), Some(None));
    for lines in [&["done"][..], &["Completed"], &[""], &["completed", "failed"], &["completed, failed"]] {
        assert_eq!(told(true, lines), None, "{lines:?}");
        assert_eq!(told(false, lines), Some(None), "{lines:?}");
    }
}
