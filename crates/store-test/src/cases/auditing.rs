//! The trail that operators leave.

use std::time::Duration;

use oncekey_core::{RecordId, State};
use oncekey_store::{
    AUDIT_AGE, Acted, AuditFilter, AuditLine, Change, Cursor, Deed, Filter, Order, Resolution, Subject, Swept,
};

use crate::{Fixture, LEASE, samples, written};

fn completed() -> Deed {
    Deed::Resolve(Resolution::Completed { response: samples::response("operator"), token: samples::token() })
}

fn subject(scope: &str, key: &str) -> Subject {
    Subject {
        id: samples::identity(scope, key).id(),
        namespace: "default".to_owned(),
        scope_source: "header:X-Account-Id".to_owned(),
        scope: scope.to_owned(),
        key: key.to_owned(),
        route: "/orders".to_owned(),
    }
}

async fn unknown(f: &Fixture, scope: &str, key: &str) -> RecordId {
    let claim = f.claimed(scope, key).await;
    written(&f.store.record(claim.identity.id(), claim.token, samples::written_off()).await);
    claim.identity.id()
}

async fn act(f: &Fixture, id: RecordId, deed: Deed) -> Acted {
    f.store.operate(&[id], &samples::order(deed)).await.expect("carried out")[0]
}

async fn trail(f: &Fixture) -> Vec<AuditLine> {
    let page = f.other.audit(&AuditFilter::default(), None, 100).await.expect("a part");
    assert_eq!(page.next, None);
    page.lines
}

/// A resolution and a purge each leave a line: when, by whom, what it was and what it became. Another handle sees it at once.
pub async fn each_change_leaves_a_line(f: Fixture) {
    let started = f.now();
    let first = unknown(&f, "acc'1 é", "k-1").await;
    assert_eq!(act(&f, first, completed()).await, Acted::Done);
    f.clock.advance(Duration::from_secs(1));
    let second = f.claimed("acc'1 é", "k-2").await.identity.id();
    f.clock.advance(LEASE);
    let resolved = f.now();
    assert_eq!(act(&f, second, Deed::Resolve(Resolution::Failed)).await, Acted::Done);
    assert_eq!(act(&f, first, Deed::Purge).await, Acted::Done);
    let lapsed = f.claimed("acc'1 é", "k-3").await.identity.id();
    f.clock.advance(LEASE);
    assert_eq!(act(&f, lapsed, Deed::Purge).await, Acted::Done);

    let line = |at, key, before, after, response_status| {
        let change = Change::Record { subject: subject("acc'1 é", key), before, after, response_status };
        AuditLine { at, operator: samples::operator("call-1"), change }
    };
    let expected = [
        line(f.now(), "k-3", State::Unknown, None, None),
        line(resolved, "k-1", State::Completed, None, None),
        line(resolved, "k-2", State::Unknown, Some(State::Failed), None),
        line(started, "k-1", State::Unknown, Some(State::Completed), Some(201)),
    ];
    assert_eq!(trail(&f).await, expected);
}

/// What was refused, what didn't match, and what no operator answers for (a probe) leave nothing.
pub async fn what_changes_nothing_leaves_no_line(f: Fixture) {
    let running = f.claimed("acc-1", "running").await.identity.id();
    let lost = unknown(&f, "acc-1", "unknown").await;
    let absent = samples::identity("acc-1", "absent").id();
    assert_eq!(act(&f, running, Deed::Purge).await, Acted::Live);
    assert_eq!(act(&f, running, completed()).await, Acted::NotUnknown(State::Processing));
    assert_eq!(act(&f, absent, Deed::Purge).await, Acted::NotFound);
    assert_eq!(act(&f, absent, completed()).await, Acted::NotFound);
    let other = Filter { scope: Some("acc-2".to_owned()), ..Filter::default() };
    let order = Order { only: Some(other), ..samples::order(Deed::Purge) };
    assert_eq!(f.store.operate(&[lost], &order).await.expect("carried out"), [Acted::Unmatched]);
    assert_eq!(f.store.operate(&[lost], &Order::unsigned(completed())).await.expect("carried out"), [Acted::Done]);
    assert_eq!(f.store.operate(&[lost], &Order::unsigned(Deed::Purge)).await.expect("carried out"), [Acted::Done]);
    assert_eq!(trail(&f).await, []);
}

/// Repeated after a lost acknowledgement, an order is found done and leaves no second line.
pub async fn a_repeated_order_leaves_one_line(f: Fixture) {
    let id = unknown(&f, "acc-1", "k").await;
    let order = Order {
        only: Some(Filter { state: Some(State::Unknown), ..Filter::default() }),
        ..samples::order(completed())
    };
    for _ in 0..2 {
        assert_eq!(f.store.operate(&[id], &order).await.expect("carried out"), [Acted::Done]);
    }
    assert_eq!(trail(&f).await.len(), 1);
}

/// Parts join without gap or repetition while lines are added, and a made-up cursor is refused.
pub async fn the_trail_comes_in_parts(f: Fixture) {
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(unknown(&f, "acc-1", &format!("k-{n}")).await);
    }
    for part in [&ids[..3], &ids[3..]] {
        f.store.operate(part, &samples::order(Deed::Purge)).await.expect("carried out");
    }
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = f.store.audit(&AuditFilter::default(), cursor.take(), 3).await.expect("a part");
        assert!(page.lines.len() <= 3);
        seen.extend(page.lines.into_iter().map(|line| line.change));
        f.store.note_sweep(Swept::default(), &samples::operator("later")).await.expect("noted");
        let Some(next) = page.next else { break };
        cursor = Some(next);
        assert!(seen.len() < 8, "it ends");
    }
    let mut about: Vec<_> = seen
        .iter()
        .map(|change| match change {
            Change::Record { subject, .. } => subject.key.clone(),
            Change::Swept { .. } => panic!("a later line in an earlier part"),
        })
        .collect();
    about.sort();
    assert_eq!(about, ["k-0", "k-1", "k-2", "k-3", "k-4", "k-5", "k-6"]);
    for text in ["", "x", "-1", "1 OR 1=1"] {
        let cursor = Some(Cursor(text.to_owned()));
        assert!(f.store.audit(&AuditFilter::default(), cursor, 3).await.is_err(), "{text}");
    }
}

/// By record, namespace, scope and key, together; a sweep is about no record.
pub async fn each_filter_of_the_trail_applies(f: Fixture) {
    for (scope, key) in [("acc-1", "a"), ("acc-1", "b"), ("acc-2", "a")] {
        let id = unknown(&f, scope, key).await;
        act(&f, id, Deed::Purge).await;
    }
    f.store.note_sweep(Swept::default(), &samples::operator("sweep")).await.expect("noted");
    let text = |text: &str| Some(text.to_owned());
    let any = AuditFilter::default;
    let cases = [
        (any(), 4),
        (AuditFilter { id: Some(samples::identity("acc-2", "a").id()), ..any() }, 1),
        (AuditFilter { namespace: text("default"), ..any() }, 3),
        (AuditFilter { namespace: text("staging"), ..any() }, 0),
        (AuditFilter { scope: text("acc-1"), ..any() }, 2),
        (AuditFilter { key: text("a"), ..any() }, 2),
        (AuditFilter { scope: text("acc-1"), key: text("a"), ..any() }, 1),
        (AuditFilter { scope: text("acc-1' OR '1'='1"), ..any() }, 0),
    ];
    for (filter, expected) in cases {
        let page = f.store.audit(&filter, None, 100).await.expect("a part");
        assert_eq!(page.lines.len(), expected, "{filter:?}");
    }
}

/// A sweep that an operator had made is told with what it did.
pub async fn a_sweep_by_hand_is_noted(f: Fixture) {
    let swept = Swept { deleted: 7, lapsed: 2, more: false };
    f.store.note_sweep(swept, &samples::operator("sweep")).await.expect("noted");
    let change = Change::Swept { deleted: 7, lapsed: 2 };
    let expected = AuditLine { at: f.now(), operator: samples::operator("sweep"), change };
    assert_eq!(trail(&f).await, [expected]);
}

/// Sweeping drops lines that are too old, in bounded steps, and only those.
pub async fn old_lines_are_swept(f: Fixture) {
    for _ in 0..3 {
        f.store.note_sweep(Swept::default(), &samples::operator("old")).await.expect("noted");
    }
    f.clock.advance(AUDIT_AGE.saturating_sub(Duration::from_secs(1)));
    f.store.note_sweep(Swept::default(), &samples::operator("young")).await.expect("noted");
    while f.store.sweep(f.now(), 2).await.expect("swept").more {}
    assert_eq!(trail(&f).await.len(), 4);
    f.clock.advance(Duration::from_secs(1));
    while f.store.sweep(f.now(), 2).await.expect("swept").more {}
    let left = trail(&f).await;
    assert_eq!(left.iter().map(|line| &*line.operator.call).collect::<Vec<_>>(), ["young"]);
}
