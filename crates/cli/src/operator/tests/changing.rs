//! `records resolve` and `records purge`.

use std::sync::Arc;
use std::time::Duration;

use oncekey_admin::resolution::{Verdict, parse_response};
use oncekey_core::{RecordId, State};
use oncekey_store::{Filter, Resolution};
use oncekey_store_test::{Fault, FaultyStore, Op, samples};
use serde_json::{Value, json};

use super::{Session, asking, desk, dry_run, ended, ends, failed, of_scope, state, yes};
use crate::exit::Exit;
use crate::operator::{Selection, purge, resolve};

const EXECUTES: &str = "The next retry of the same request executes again.";
const NEW: &str = "The next request with such a key executes as a new operation.";

/// What `--json` prints of a change that one record matched.
fn done(changed: u32, id: RecordId, retry: &str) -> Value {
    json!({"matched": 1, "changed": changed, "ids": [id.to_string()], "more": false, "retry": retry})
}

#[tokio::test]
async fn resolving_one_record_needs_no_question_and_says_what_a_retry_gets() {
    let desk = desk();
    let [first, second] = [
        ended(&desk, "acc-1", "k-1", samples::written_off()).await,
        ended(&desk, "acc-1", "k-2", samples::written_off()).await,
    ];
    let response = parse_response(br#"{"status":201,"headers":{"X-A":"1"},"body":"made"}"#).unwrap();
    let completed = Verdict { response: Some(Arc::new(response)) };

    let mut session = Session::default();
    let (store, none) = (desk.store.as_ref(), asking());
    resolve(store, Selection::Id(first), &completed, &none, &mut session.console()).await.unwrap();
    assert_eq!(session.out(), format!("{first}\n"));
    assert_eq!(session.talk(), "Resolved as completed. The next retry gets the given response (status 201).\n");
    assert_eq!(state(&desk, first).await, Some(State::Completed));

    let mut session = Session::json();
    resolve(store, Selection::Id(second), &failed(), &none, &mut session.console()).await.unwrap();
    assert_eq!(session.value(), done(1, second, EXECUTES));
    assert_eq!(session.talk(), "Resolved as failed. The next retry of the same request executes again.\n");
    assert_eq!(state(&desk, second).await, Some(State::Failed));
}

#[tokio::test]
async fn a_record_that_is_not_unknown_is_not_resolved() {
    let desk = desk();
    let id = ended(&desk, "acc-1", "k-1", samples::completed("made")).await;
    for change in [asking(), dry_run()] {
        let mut session = Session::default();
        let result = resolve(desk.store.as_ref(), Selection::Id(id), &failed(), &change, &mut session.console())
            .await
            .unwrap_err();
        assert_eq!(result.exit(), Exit::Failed);
        assert!(result.to_string().contains("completed"), "{result}");
        assert_eq!(session.out(), "");
    }
    assert_eq!(state(&desk, id).await, Some(State::Completed));
}

#[tokio::test]
async fn resolving_by_filter_touches_unknown_records_only() {
    let desk = desk();
    let unknown = ended(&desk, "acc-1", "k-1", samples::written_off()).await;
    let completed = ended(&desk, "acc-1", "k-2", samples::completed("made")).await;
    let other = ended(&desk, "acc-2", "k-3", samples::written_off()).await;
    let mut session = Session::json();
    let selection = Selection::Matching(of_scope("acc-1"));
    resolve(desk.store.as_ref(), selection, &failed(), &yes(), &mut session.console()).await.unwrap();
    assert_eq!(session.value(), done(1, unknown, EXECUTES));
    assert_eq!(state(&desk, completed).await, Some(State::Completed));
    assert_eq!(state(&desk, other).await, Some(State::Unknown));

    let wrong = Selection::Matching(Filter { state: Some(State::Completed), ..Filter::default() });
    let result = resolve(desk.store.as_ref(), wrong, &failed(), &yes(), &mut session.console()).await;
    assert_eq!(ends(result), Exit::Usage);
}

#[tokio::test]
async fn purging_by_filter_spares_what_runs() {
    let desk = desk();
    let running = desk.claimed("acc-1", "k-0").await.identity.id();
    let old = ended(&desk, "acc-1", "k-1", samples::completed("made")).await;
    let mut session = Session::default();
    let selection = Selection::Matching(of_scope("acc-1"));
    purge(desk.store.as_ref(), selection, &yes(), &mut session.console()).await.unwrap();
    assert_eq!(session.out(), format!("{old}\n"));
    assert_eq!(session.talk(), "Purged. The next request with such a key executes as a new operation.\n");
    assert_eq!((state(&desk, old).await, state(&desk, running).await), (None, Some(State::Processing)));

    let result = purge(desk.store.as_ref(), Selection::Id(running), &yes(), &mut session.console()).await.unwrap_err();
    assert_eq!(result.exit(), Exit::Failed);
    assert!(result.to_string().contains("being executed"), "{result}");
    let absent = purge(desk.store.as_ref(), Selection::Id(old), &yes(), &mut session.console()).await;
    assert_eq!(ends(absent), Exit::Failed);
}

#[tokio::test]
async fn a_filter_with_an_age_goes_by_the_claim() {
    let desk = desk();
    let old = ended(&desk, "acc-1", "k-1", samples::completed("made")).await;
    desk.clock.advance(Duration::from_mins(10));
    let young = ended(&desk, "acc-1", "k-2", samples::completed("made")).await;
    let filter = Filter { older_than: Some(Duration::from_mins(5)), ..Filter::default() };
    let mut session = Session::default();
    purge(desk.store.as_ref(), Selection::Matching(filter), &yes(), &mut session.console()).await.unwrap();
    assert_eq!((state(&desk, old).await, state(&desk, young).await), (None, Some(State::Completed)));
}

#[tokio::test]
async fn a_dry_run_names_the_records_and_changes_none() {
    let desk = desk();
    let id = ended(&desk, "acc-1", "k-1", samples::written_off()).await;
    for selection in [Selection::Id(id), Selection::Matching(Filter::default())] {
        let mut session = Session::json();
        resolve(desk.store.as_ref(), selection.clone(), &failed(), &dry_run(), &mut session.console()).await.unwrap();
        assert_eq!(session.value(), done(0, id, EXECUTES));
        assert_eq!(
            session.talk(),
            format!("Would resolve 1 record as failed; nothing was changed. After that: {EXECUTES}\n")
        );

        let mut session = Session::default();
        purge(desk.store.as_ref(), selection, &dry_run(), &mut session.console()).await.unwrap();
        assert_eq!(session.out(), format!("{id}\n"));
        assert_eq!(session.talk(), format!("Would purge 1 record; nothing was changed. After that: {NEW}\n"));
    }
    assert_eq!(state(&desk, id).await, Some(State::Unknown));
}

#[tokio::test]
async fn a_filter_is_asked_about_on_a_terminal_and_refused_elsewhere() {
    let desk = desk();
    let id = ended(&desk, "acc-1", "k-1", samples::written_off()).await;
    let all = || Selection::Matching(Filter::default());
    let ask = asking();

    let mut session = Session::default();
    let result = purge(desk.store.as_ref(), all(), &ask, &mut session.console()).await.unwrap_err();
    assert_eq!(result.exit(), Exit::Usage);
    assert!(result.to_string().contains("--yes"), "{result}");

    for answer in ["", "\n", "n\n", "yessir\n"] {
        let mut session = Session::typing(answer);
        let result = purge(desk.store.as_ref(), all(), &ask, &mut session.console()).await;
        assert_eq!(ends(result), Exit::Failed, "{answer:?}");
        assert_eq!((session.out(), session.talk()), ("", "Purge 1 record? [y/N] "), "{answer:?}");
    }
    assert_eq!(state(&desk, id).await, Some(State::Unknown));

    for (number, answer) in ["y\n", "YES\n", "y"].into_iter().enumerate() {
        let id = ended(&desk, "acc-1", &format!("again-{number}"), samples::written_off()).await;
        let mut session = Session::typing(answer);
        purge(desk.store.as_ref(), all(), &ask, &mut session.console()).await.unwrap();
        assert_eq!(state(&desk, id).await, None, "{answer:?}");
    }
}

#[tokio::test]
async fn a_filter_that_matches_nothing_is_fine_and_asks_nothing() {
    let desk = desk();
    let mut session = Session::default();
    let selection = Selection::Matching(of_scope("nobody"));
    purge(desk.store.as_ref(), selection, &asking(), &mut session.console()).await.unwrap();
    assert_eq!((session.out(), session.talk()), ("", "0 of 0 records changed.\n"));
}

#[tokio::test]
async fn json_names_a_hundred_records_and_counts_all() {
    let desk = desk();
    for number in 0..101 {
        ended(&desk, "acc-1", &format!("k-{number}"), samples::written_off()).await;
    }
    let mut session = Session::json();
    purge(desk.store.as_ref(), Selection::Matching(Filter::default()), &yes(), &mut session.console()).await.unwrap();
    let value = session.value();
    assert_eq!((&value["matched"], &value["changed"]), (&json!(101), &json!(101)));
    assert_eq!(value["ids"].as_array().unwrap().len(), 100);
    assert!(session.talk().starts_with("101 of 101 records changed.\n"));
}

#[tokio::test]
async fn a_store_that_fails_midway_leaves_told_what_was_changed() {
    let desk = desk();
    let mut ids = Vec::new();
    for number in 0..101 {
        ids.push(ended(&desk, "acc-1", &format!("k-{number}"), samples::written_off()).await);
    }
    let store = FaultyStore::new(Arc::clone(&desk.store));
    // Newest first, a hundred at a time: the oldest meets the failure.
    let gate = store.hold_after(Op::Purge);
    gate.open();
    store.fail_next(Op::Purge, Fault::NotApplied);
    let mut session = Session::default();
    let result = purge(&store, Selection::Matching(Filter::default()), &yes(), &mut session.console()).await;
    assert_eq!(ends(result), Exit::Unavailable);
    assert_eq!(session.out().lines().count(), 100);
    assert!(session.talk().starts_with("100 of 101 records changed.\n"), "{}", session.talk());
    assert_eq!(state(&desk, ids[0]).await, Some(State::Unknown));
}

#[tokio::test]
async fn what_changes_between_asking_and_acting_is_left_and_told() {
    let desk = desk();
    let (kept, purged) = (
        ended(&desk, "acc-1", "k-1", samples::written_off()).await,
        ended(&desk, "acc-1", "k-2", samples::written_off()).await,
    );
    let store = FaultyStore::new(Arc::clone(&desk.store));
    let gate = store.hold_before(Op::Purge);
    let mut session = Session::default();
    let unknown = Filter { state: Some(State::Unknown), ..Filter::default() };
    let meanwhile = async {
        gate.reached().await;
        desk.store.resolve(kept, Resolution::Failed).await.unwrap();
        gate.open();
    };
    let (change, mut console) = (yes(), session.console());
    let (ended, ()) = tokio::join!(purge(&store, Selection::Matching(unknown), &change, &mut console), meanwhile);
    ended.unwrap();
    assert_eq!(session.out(), format!("{purged}\n"));
    assert!(
        session
            .talk()
            .starts_with(&format!("{kept} changed meanwhile and no longer matches.\n1 of 2 records changed.\n")),
        "{}",
        session.talk()
    );
    assert_eq!((state(&desk, kept).await, state(&desk, purged).await), (Some(State::Failed), None));
}

#[tokio::test]
async fn a_response_for_many_records_is_small() {
    let desk = desk();
    let id = ended(&desk, "acc-1", "k-1", samples::written_off()).await;
    let large = Verdict { response: Some(samples::with_body(vec![b'x'; 65_537].into())) };
    let mut session = Session::default();
    let all = Selection::Matching(of_scope("acc-1"));
    let result = resolve(desk.store.as_ref(), all, &large, &yes(), &mut session.console()).await;
    assert_eq!(ends(result), Exit::Usage);
    resolve(desk.store.as_ref(), Selection::Id(id), &large, &yes(), &mut session.console()).await.unwrap();
}
