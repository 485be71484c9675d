//! `records audit`, and the story that `records show` tells.

use oncekey_store::{AuditFilter, Filter};
use oncekey_store_test::samples;
use serde_json::{Value, json};

use super::{Session, desk, dry_run, ended, failed, yes};
use crate::operator::{Detail, One, Selection, audit, purge, resolve, show, sweep};

#[tokio::test]
async fn each_change_is_listed_with_who_and_why() {
    let desk = desk();
    let id = ended(&desk, "acc-1", "k-1", samples::written_off()).await;
    let store = desk.store.as_ref();
    let mut session = Session::default();
    purge(store, Selection::Id(id), &dry_run(), &mut session.console()).await.unwrap();
    resolve(store, Selection::Id(id), &failed(), &yes(), &mut session.console()).await.unwrap();
    sweep(store, &samples::operator("call-2"), &mut session.console()).await.unwrap();
    purge(store, Selection::Matching(Filter::default()), &yes(), &mut session.console()).await.unwrap();

    let mut session = Session::json();
    audit(store, &AuditFilter::default(), 100, &mut session.console()).await.unwrap();
    let value = session.value();
    let told = |line: &Value| (line["action"].clone(), line["before"].clone(), line["after"].clone());
    let lines: Vec<_> = value["audit"].as_array().unwrap().iter().map(told).collect();
    let expected = [
        (json!("purge"), json!("failed"), Value::Null),
        (json!("sweep"), Value::Null, Value::Null),
        (json!("resolve"), json!("unknown"), json!("failed")),
    ];
    assert_eq!(lines, expected);
    assert_eq!((&value["audit"][0]["via"], &value["next"]), (&json!("cli"), &Value::Null));

    let mut session = Session::default();
    let about = AuditFilter { id: Some(id), ..AuditFilter::default() };
    audit(store, &about, 1, &mut session.console()).await.unwrap();
    assert_eq!(session.out().lines().count(), 2, "{}", session.out());
    assert!(session.out().contains("al'ice \\u{202e}(uid 1000)"), "harmless: {}", session.out());
    let mut session = Session::default();
    let nobody = AuditFilter { scope: Some("nobody".to_owned()), ..AuditFilter::default() };
    audit(store, &nobody, 100, &mut session.console()).await.unwrap();
    assert_eq!((session.out(), session.talk()), ("", "Nothing was changed by hand that matches.\n"));
}

#[tokio::test]
async fn a_record_is_shown_with_its_story() {
    let desk = desk();
    let id = ended(&desk, "acc-1", "k-1", samples::written_off()).await;
    let store = desk.store.as_ref();
    let mut session = Session::default();
    resolve(store, Selection::Id(id), &failed(), &yes(), &mut session.console()).await.unwrap();
    let mut session = Session::default();
    show(store, &One::Id(id), Detail::Record, &mut session.console()).await.unwrap();
    assert!(
        session.out().contains("resolved  Resolved from unknown as failed by al'ice \\u{202e}"),
        "{}",
        session.out()
    );
    let mut session = Session::json();
    show(store, &One::Id(id), Detail::Record, &mut session.console()).await.unwrap();
    assert_eq!(session.value()["history"][1]["event"], "resolved");
}
