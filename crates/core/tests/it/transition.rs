//! The transition table (E4, E5, A3), written out and not derived: every state, every event, held or not.

use Event::{Claim, Complete, Fail, Lapse, ResolveCompleted, ResolveFailed, WriteOff};
use Refusal::{AlreadyWritten, Fenced, State as WrongState};
use State::{Completed, Failed, Processing, Unknown};
use oncekey_core::{Event, Refusal, State, transition};
use proptest::prelude::*;

type Row = (Option<State>, Event, Result<State, Refusal>, Result<State, Refusal>);

/// From, event, result when the writer's token (for a claim: token and state) is the record's, result when it isn't.
#[rustfmt::skip]
const TABLE: [Row; 35] = [
    (None,             Claim,            Ok(Processing),      Ok(Processing)),
    (None,             Complete,         Err(WrongState),     Err(WrongState)),
    (None,             Fail,             Err(WrongState),     Err(WrongState)),
    (None,             WriteOff,         Err(WrongState),     Err(WrongState)),
    (None,             Lapse,            Err(WrongState),     Err(WrongState)),
    (None,             ResolveCompleted, Err(WrongState),     Err(WrongState)),
    (None,             ResolveFailed,    Err(WrongState),     Err(WrongState)),
    // A claim on `processing` replaces one that lapsed and expired unnoticed.
    (Some(Processing), Claim,            Ok(Processing),      Err(Fenced)),
    (Some(Processing), Complete,         Ok(Completed),       Err(Fenced)),
    (Some(Processing), Fail,             Ok(Failed),          Err(Fenced)),
    (Some(Processing), WriteOff,         Ok(Unknown),         Err(Fenced)),
    (Some(Processing), Lapse,            Ok(Unknown),         Err(Fenced)),
    (Some(Processing), ResolveCompleted, Err(WrongState),     Err(Fenced)),
    (Some(Processing), ResolveFailed,    Err(WrongState),     Err(Fenced)),
    // A claim on `completed` replaces an expired one; nothing else moves it.
    (Some(Completed),  Claim,            Ok(Processing),      Err(Fenced)),
    (Some(Completed),  Complete,         Err(AlreadyWritten), Err(Fenced)),
    (Some(Completed),  Fail,             Err(WrongState),     Err(Fenced)),
    (Some(Completed),  WriteOff,         Err(WrongState),     Err(Fenced)),
    (Some(Completed),  Lapse,            Err(WrongState),     Err(Fenced)),
    (Some(Completed),  ResolveCompleted, Err(WrongState),     Err(Fenced)),
    (Some(Completed),  ResolveFailed,    Err(WrongState),     Err(Fenced)),
    (Some(Failed),     Claim,            Ok(Processing),      Err(Fenced)),
    // Late, after an operator's `failed` and before a retry: the truth wins.
    (Some(Failed),     Complete,         Ok(Completed),       Err(Fenced)),
    (Some(Failed),     Fail,             Err(AlreadyWritten), Err(Fenced)),
    (Some(Failed),     WriteOff,         Err(WrongState),     Err(Fenced)),
    (Some(Failed),     Lapse,            Err(WrongState),     Err(Fenced)),
    (Some(Failed),     ResolveCompleted, Err(WrongState),     Err(Fenced)),
    (Some(Failed),     ResolveFailed,    Err(WrongState),     Err(Fenced)),
    (Some(Unknown),    Claim,            Ok(Processing),      Err(Fenced)),
    // Lapsed and not taken over: a late outcome counts.
    (Some(Unknown),    Complete,         Ok(Completed),       Err(Fenced)),
    (Some(Unknown),    Fail,             Ok(Failed),          Err(Fenced)),
    (Some(Unknown),    WriteOff,         Err(AlreadyWritten), Err(Fenced)),
    (Some(Unknown),    Lapse,            Err(AlreadyWritten), Err(Fenced)),
    (Some(Unknown),    ResolveCompleted, Ok(Completed),       Err(Fenced)),
    (Some(Unknown),    ResolveFailed,    Ok(Failed),          Err(Fenced)),
];

#[test]
fn every_transition_is_as_the_table_says() {
    for (from, event, held, not_held) in TABLE {
        assert_eq!(transition(from, event, true), held, "{from:?} {event:?}, held");
        assert_eq!(transition(from, event, false), not_held, "{from:?} {event:?}, not held");
    }
}

#[test]
fn the_table_has_every_state_and_event_once() {
    let froms = std::iter::once(None).chain(State::ALL.map(Some));
    for from in froms {
        for event in Event::ALL {
            let rows = TABLE.iter().filter(|row| row.0 == from && row.1 == event);
            assert_eq!(rows.count(), 1, "{from:?} {event:?}");
        }
    }
}

/// What a store does with a record: state and token, changed by events of which each bears a token.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stored {
    state: State,
    token: u8,
}

/// An event by the writer `token`. A claim is made on what its claimant `saw`.
#[derive(Clone, Copy, Debug)]
struct Write {
    event: Event,
    token: u8,
    saw: Option<Stored>,
}

fn apply(stored: Option<Stored>, write: Write) -> Option<Stored> {
    let matches = match write.event {
        Event::Claim => stored == write.saw,
        _ => stored.is_some_and(|stored| stored.token == write.token),
    };
    match transition(stored.map(|stored| stored.state), write.event, matches) {
        Err(_) => stored,
        Ok(state) if matches!(write.event, Event::Claim | Event::ResolveCompleted) => {
            Some(Stored { state, token: write.token })
        }
        Ok(state) => Some(Stored { state, token: stored.map_or(write.token, |stored| stored.token) }),
    }
}

fn stored() -> impl Strategy<Value = Stored> {
    (prop::sample::select(State::ALL.to_vec()), 0..3u8).prop_map(|(state, token)| Stored { state, token })
}

fn write() -> impl Strategy<Value = Write> {
    (prop::sample::select(Event::ALL.to_vec()), 0..3u8, prop::option::of(stored()))
        .prop_map(|(event, token, saw)| Write { event, token, saw })
}

proptest! {
    #[test]
    fn a_fenced_writer_changes_nothing(stored in stored(), write in write()) {
        if write.event != Event::Claim && write.token != stored.token {
            prop_assert_eq!(apply(Some(stored), write), Some(stored));
        }
    }

    #[test]
    fn only_a_claim_that_saw_it_leaves_completed(token in 0..3u8, write in write()) {
        let completed = Stored { state: State::Completed, token };
        if apply(Some(completed), write) != Some(completed) {
            prop_assert_eq!(write.event, Event::Claim);
            prop_assert_eq!(write.saw, Some(completed));
        }
    }

    #[test]
    fn a_write_that_is_repeated_changes_nothing_more(stored in prop::option::of(stored()), write in write()) {
        let once = apply(stored, write);
        let after_own_claim = write.event == Event::Claim && once == write.saw;
        if !after_own_claim {
            prop_assert_eq!(apply(once, write), once);
        }
    }

    #[test]
    fn of_two_claims_on_the_same_sight_one_is_granted(saw in prop::option::of(stored()), tokens in prop::array::uniform2(3..6u8)) {
        prop_assume!(tokens[0] != tokens[1]);
        let claim = |token| Write { event: Event::Claim, token, saw };
        let first = apply(saw, claim(tokens[0]));
        prop_assert_eq!(first, Some(Stored { state: State::Processing, token: tokens[0] }));
        prop_assert_eq!(apply(first, claim(tokens[1])), first);
    }

    #[test]
    fn after_an_operators_completed_no_owner_writes(token in 0..3u8, write in write()) {
        let unknown = Stored { state: State::Unknown, token };
        let resolution = transition(Some(unknown.state), Event::ResolveCompleted, true);
        prop_assert_eq!(resolution, Ok(State::Completed));
        let resolved = Stored { state: State::Completed, token: 9 };
        if write.event != Event::Claim {
            prop_assert_eq!(apply(Some(resolved), write), Some(resolved));
        }
    }

    #[test]
    fn nothing_but_a_claim_makes_a_record_or_makes_one_run(stored in prop::option::of(stored()), write in write()) {
        let after = apply(stored, write);
        if after != stored && after.is_some_and(|after| after.state == State::Processing) {
            prop_assert_eq!(write.event, Event::Claim);
        }
    }
}
