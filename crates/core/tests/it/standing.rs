//! What a record counts as at a given moment (E4, E9), and which answers end it how (E7, E8).

use std::time::Duration;

use http::StatusCode;
use oncekey_core::policy::{Recording, StatusSet, Timing, Verdict};
use oncekey_core::record::{Lifetimes, Origin, Times};
use oncekey_core::{
    Fingerprint, Identity, Key, Namespace, OwnerId, Recipe, Record, Scope, Standing, State, Timestamp, Token, standing,
};
use proptest::prelude::*;

const DEADLINE: i64 = 1_000;
const UNKNOWN_TTL: u64 = 500;
/// When a lapse that nobody wrote down expires.
const UNNOTICED: i64 = 1_500;

pub(crate) fn record(state: State, expires: Option<i64>) -> Record {
    let at = Timestamp::from_micros;
    Record {
        identity: Identity {
            namespace: Namespace::default(),
            scope: Scope::new("header:X-Account-Id", "acc-1").unwrap(),
            key: Key::from_decoded("abc").unwrap(),
        },
        state,
        token: Token::from_bytes([1; 16]),
        owner: OwnerId::from_bytes([2; 16]),
        fingerprint: Fingerprint::from_parts([3; 32], Recipe::default()),
        origin: Origin { route: "*".to_owned(), method: "POST".to_owned(), path: "/orders".to_owned() },
        lifetimes: Lifetimes {
            run: Duration::from_millis(1),
            ttl: Duration::from_millis(2),
            unknown_ttl: Duration::from_micros(UNKNOWN_TTL),
        },
        times: Times { created: at(0), started: at(0), ended: None, deadline: at(DEADLINE), expires: expires.map(at) },
        response_status: None,
        attempts: 1,
        replays: 0,
    }
}

/// What a record counts as while the store's clock is trusted.
fn judged(state: State, expires: Option<i64>, now: i64, owner_alive: bool) -> Standing {
    standing(&record(state, expires), Timestamp::from_micros(now), owner_alive, true)
}

#[test]
fn a_claim_is_valid_while_its_owner_lives_and_until_its_deadline() {
    assert_eq!(judged(State::Processing, None, 0, true), Standing::Processing);
    assert_eq!(judged(State::Processing, None, DEADLINE - 1, true), Standing::Processing);
    assert_eq!(judged(State::Processing, None, DEADLINE, true), Standing::Unknown);
    assert_eq!(judged(State::Processing, None, 0, false), Standing::Unknown);
}

#[test]
fn a_lapse_that_nobody_wrote_down_expires_unknown_ttl_after_the_deadline() {
    for owner_alive in [true, false] {
        assert_eq!(judged(State::Processing, None, UNNOTICED - 1, owner_alive), Standing::Unknown);
        assert_eq!(judged(State::Processing, None, UNNOTICED, owner_alive), Standing::Absent);
    }
}

#[test]
fn what_runs_never_expires_whatever_the_store_says() {
    assert_eq!(judged(State::Processing, Some(10), 20, true), Standing::Processing);
    assert_eq!(judged(State::Processing, Some(10), 20, false), Standing::Unknown);
}

#[test]
fn what_has_ended_is_absent_from_the_moment_it_expires() {
    let ended = [
        (State::Completed, Standing::Completed),
        (State::Failed, Standing::Failed),
        (State::Unknown, Standing::Unknown),
    ];
    for (state, expected) in ended {
        for owner_alive in [true, false] {
            assert_eq!(judged(state, Some(5_000), 4_999, owner_alive), expected);
            assert_eq!(judged(state, Some(5_000), 5_000, owner_alive), Standing::Absent);
            assert_eq!(judged(state, None, i64::MAX, owner_alive), expected, "no expiry on record: never absent");
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_absent_by_a_clock_that_is_not_trusted(
        state in prop::sample::select(State::ALL.to_vec()), expires in any::<Option<i64>>(), now in any::<i64>(), owner_alive in any::<bool>()
    ) {
        let judged = standing(&record(state, expires), Timestamp::from_micros(now), owner_alive, false);
        prop_assert_ne!(judged, Standing::Absent);
    }

    #[test]
    fn what_is_absent_stays_absent(
        state in prop::sample::select(State::ALL.to_vec()), expires in 0..3_000i64, now in 0..3_000i64, later in 0..3_000i64,
        owner_alive in any::<[bool; 2]>()
    ) {
        if judged(state, Some(expires), now, owner_alive[0]) == Standing::Absent {
            prop_assert_eq!(judged(state, Some(expires), now + later, owner_alive[1]), Standing::Absent);
        }
    }
}

#[test]
fn a_lapse_at_the_end_of_time_does_not_wrap_around() {
    let mut record = record(State::Processing, None);
    record.times.deadline = Timestamp::from_micros(i64::MAX);
    record.lifetimes.unknown_ttl = Duration::MAX;
    assert_eq!(standing(&record, Timestamp::from_micros(0), false, true), Standing::Unknown);
}

#[test]
fn the_deadline_of_a_claim_is_the_upstreams_time_and_the_lease() {
    let lifetimes = Timing::default().lifetimes(Duration::from_secs(30));
    assert_eq!(lifetimes.run, Duration::from_secs(630));
    assert_eq!(lifetimes.ttl, Duration::from_hours(48));
    assert_eq!(lifetimes.unknown_ttl, Duration::from_hours(720));
}

#[test]
fn an_answer_ends_its_record_as_its_status_says() {
    let verdict =
        |code: u16, has_retry_after| Recording::default().verdict(StatusCode::from_u16(code).unwrap(), has_retry_after);
    for has_retry_after in [true, false] {
        for code in [200, 201, 204, 302, 304, 400, 404, 409, 422, 500, 501] {
            assert_eq!(verdict(code, has_retry_after), Verdict::Completed, "{code}");
        }
        for code in [401, 403, 408, 425, 429] {
            assert_eq!(verdict(code, has_retry_after), Verdict::Failed, "{code}");
        }
        for code in [502, 504] {
            assert_eq!(verdict(code, has_retry_after), Verdict::Unknown, "{code}");
        }
    }
    assert_eq!(verdict(503, true), Verdict::Failed);
    assert_eq!(verdict(503, false), Verdict::Unknown);
}

#[test]
fn an_answer_in_a_transaction_is_never_unknown_and_keeps_its_rows_below_400() {
    let verdict = |code: u16| Recording::default().verdict_in_transaction(StatusCode::from_u16(code).unwrap());
    let told = |told, code: u16| Recording::told_in_transaction(told, StatusCode::from_u16(code).unwrap());
    for code in 200..600 {
        let retry = [401, 403, 408, 425, 429].contains(&code);
        let expected = match code {
            200..400 => Verdict::Completed,
            400..500 if !retry => Verdict::Declined,
            _ => Verdict::Failed,
        };
        assert_eq!(verdict(code), expected, "{code}");
        let kept = if code < 400 { Verdict::Completed } else { Verdict::Declined };
        assert_eq!(told(Verdict::Completed, code), kept, "{code}");
        assert_eq!([told(Verdict::Failed, code), told(Verdict::Unknown, code)], [Verdict::Failed; 2], "{code}");
    }
    let recording = Recording { unknown_status: StatusSet::of(&[202, 409]), ..Recording::default() };
    for code in [StatusCode::ACCEPTED, StatusCode::CONFLICT] {
        assert_eq!(recording.verdict_in_transaction(code), Verdict::Failed, "listed, so a retry runs");
    }
}

#[test]
fn a_listed_503_counts_where_it_is_listed_and_an_unlisted_one_by_its_retry_after() {
    let verdicts = |recording: &Recording| {
        [true, false].map(|has_retry_after| recording.verdict(StatusCode::SERVICE_UNAVAILABLE, has_retry_after))
    };
    let mut server_errors = StatusSet::default();
    server_errors.insert_class(5);
    let (empty, all) = (StatusSet::default(), server_errors);
    let recording = |retry: &StatusSet, unknown: &StatusSet| Recording {
        retry_status: retry.clone(),
        unknown_status: unknown.clone(),
        ..Recording::default()
    };
    assert_eq!(verdicts(&recording(&all, &empty)), [Verdict::Failed; 2]);
    assert_eq!(verdicts(&recording(&empty, &all)), [Verdict::Unknown; 2]);
    assert_eq!(verdicts(&recording(&all, &all)), [Verdict::Unknown; 2], "the safer reading");
    assert_eq!(verdicts(&recording(&empty, &empty)), [Verdict::Failed, Verdict::Unknown]);
}
