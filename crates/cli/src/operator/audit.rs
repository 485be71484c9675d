//! `oncekey records audit`: what operators did.

use oncekey_admin::audit::{AuditListView, AuditView};
use oncekey_store::{AuditFilter, Store};

use crate::exit::Failure;
use crate::operator::console::Console;
use crate::operator::screen::{table, visible};
use crate::operator::store_failure;

/// Lines that are read at a time.
const PART: u32 = 1000;

/// Prints the newest lines that match, at most `limit`: as a table, or as the API's listing.
pub(crate) async fn audit(
    store: &dyn Store,
    filter: &AuditFilter,
    limit: u32,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let (mut lines, mut cursor, mut left) = (Vec::new(), None, limit);
    while left > 0 {
        let page = store.audit(filter, cursor.take(), left.min(PART)).await.map_err(|error| store_failure(&error))?;
        left = left.saturating_sub(u32::try_from(page.lines.len()).unwrap_or(u32::MAX));
        lines.extend(page.lines.into_iter().map(AuditView::of));
        let Some(next) = page.next else { break };
        cursor = Some(next);
    }
    if console.json {
        return console.print_json(&AuditListView { audit: lines, next: None }).map(drop);
    }
    if lines.is_empty() {
        console.say("Nothing was changed by hand that matches.");
        return Ok(());
    }
    console.print(&rows(&lines)).map(drop)
}

/// What people wrote stands last, so that it can't push the rest out of line.
fn rows(lines: &[AuditView]) -> String {
    let head = ["AT", "ACTION", "ID", "BEFORE", "AFTER", "CALL", "VIA", "WHO", "FROM", "REASON"].map(str::to_owned);
    let or_none = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), visible);
    let rows = lines.iter().map(|line| {
        let swept = line.deleted.zip(line.lapsed);
        [
            line.at.clone(),
            line.action.to_owned(),
            or_none(line.id.as_deref()),
            or_none(line.before),
            match swept {
                Some((deleted, lapsed)) => format!("{deleted} deleted, {lapsed} lapsed"),
                None => or_none(line.after),
            },
            visible(&line.call),
            visible(&line.via),
            visible(&line.who),
            or_none(line.from.as_deref()),
            or_none(line.reason.as_deref()),
        ]
    });
    table(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}
