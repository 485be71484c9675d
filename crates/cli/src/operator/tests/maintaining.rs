//! `sweep`, `stats`, and how every command ends when the store fails.

use std::sync::Arc;
use std::time::Duration;

use oncekey_store::{AuditFilter, Filter};
use oncekey_store_test::{Fault, FaultyStore, Op, samples};
use serde_json::json;

use super::{Session, desk, ended, ends, failed, yes};
use crate::exit::Exit;
use crate::operator::{Detail, One, Selection, audit, list, purge, resolve, show, stats, sweep};

#[tokio::test]
async fn a_store_that_is_not_there_ends_each_command_with_69_and_a_damaged_record_with_1() {
    let desk = desk();
    let store = FaultyStore::new(Arc::clone(&desk.store));
    let id = samples::identity("acc-1", "k-1").id();
    for (fault, exit) in [
        (Fault::NotApplied, Exit::Unavailable),
        (Fault::RequestLost, Exit::Unavailable),
        (Fault::Corrupt, Exit::Failed),
    ] {
        for op in [Op::List, Op::Read, Op::Purge, Op::Resolve, Op::Stats, Op::Audit] {
            store.fail_always(op, fault.clone());
        }
        let mut session = Session::default();
        let mut console = session.console();
        let all = Filter::default();
        assert_eq!(ends(list(&store, &all, &mut console).await), exit);
        assert_eq!(ends(show(&store, &One::Id(id), Detail::Record, &mut console).await), exit);
        assert_eq!(ends(resolve(&store, Selection::Id(id), &failed(), &yes(), &mut console).await), exit);
        assert_eq!(ends(purge(&store, Selection::Id(id), &yes(), &mut console).await), exit);
        assert_eq!(ends(purge(&store, Selection::Matching(all), &yes(), &mut console).await), exit);
        assert_eq!(ends(sweep(&store, &samples::operator("c"), &mut console).await), exit);
        assert_eq!(ends(stats(&store, &[], &mut console).await), exit);
        assert_eq!(ends(audit(&store, &AuditFilter::default(), 1, &mut console).await), exit);
        assert_eq!(session.out(), "");
    }
}

#[tokio::test]
async fn a_sweep_goes_on_until_nothing_is_left() {
    let desk = desk();
    for number in 0..2500 {
        ended(&desk, "acc-1", &format!("k-{number}"), samples::completed("made")).await;
    }
    desk.clock.advance(Duration::from_hours(48));
    let owner = desk.owner().await;
    desk.store.claim(samples::claim(&samples::identity("acc-1", "late"), owner)).await.unwrap();
    desk.store.retire(owner).await.unwrap();
    let mut session = Session::default();
    sweep(desk.store.as_ref(), &samples::operator("c"), &mut session.console()).await.unwrap();
    assert_eq!(session.out(), "deleted  2500\nlapsed   1\n");
    let mut session = Session::json();
    sweep(desk.store.as_ref(), &samples::operator("c"), &mut session.console()).await.unwrap();
    assert_eq!(session.value(), json!({"deleted": 0, "lapsed": 0}));
}

#[tokio::test]
async fn stats_have_the_shape_of_the_api() {
    let desk = desk();
    ended(&desk, "acc-1", "k-1", samples::completed("made")).await;
    let bytes = desk.store.stats().await.unwrap().bytes;
    let mut session = Session::json();
    stats(desk.store.as_ref(), &[], &mut session.console()).await.unwrap();
    let expected = json!({
        "records": {"processing": 0, "completed": 1, "failed": 0, "unknown": 0},
        "bytes": bytes,
        "class": "best_effort",
        "classes": {},
        "store": "memory",
        "version": env!("CARGO_PKG_VERSION"),
    });
    assert_eq!(session.value(), expected);

    let mut session = Session::default();
    stats(desk.store.as_ref(), &[], &mut session.console()).await.unwrap();
    assert!(
        session.out().contains("\ncompleted   1\n") || session.out().starts_with("completed   1\n"),
        "{}",
        session.out()
    );
    assert!(session.out().contains("\nclass       best_effort\n"), "{}", session.out());
}
