//! `oncekey records list`.

use oncekey_admin::view::RecordView;
use oncekey_store::{Filter, Store};

use crate::exit::Failure;
use crate::operator::console::Console;
use crate::operator::screen::{table, visible};
use crate::operator::store_failure;

/// Records that are read and printed at a time, so that a listing of any length takes little memory.
const PART: u32 = 1000;

/// Prints the records that match, newest claim first: as a table, or as the API's listing in one piece. Expired records
/// are absent (E9).
pub(crate) async fn list(store: &dyn Store, filter: &Filter, console: &mut Console<'_>) -> Result<(), Failure> {
    let mut parts = Parts::of(store, filter);
    let mut printed = 0;
    while let Some(records) = parts.next().await? {
        let text = if console.json { json(&records, printed == 0)? } else { rows(&records, printed == 0) };
        printed += records.len();
        if !console.print(&text)? {
            return Ok(());
        }
    }
    match (console.json, printed) {
        (true, 0) => console.print("{\"records\":[],\"next\":null}\n").map(drop),
        (true, _) => console.print("],\"next\":null}\n").map(drop),
        (false, 0) => {
            // Of one namespace, which nobody may have named: the records that are looked for may be another's (S5).
            let of = filter.namespace.as_ref().map(|name| format!(" in the namespace `{name}`")).unwrap_or_default();
            console.say(&format!("No record matches{of}."));
            Ok(())
        }
        (false, _) => Ok(()),
    }
}

/// The records of a listing, part by part; no part is empty.
pub(super) struct Parts<'a> {
    store: &'a dyn Store,
    filter: &'a Filter,
    cursor: Option<oncekey_store::Cursor>,
    ended: bool,
}

impl<'a> Parts<'a> {
    pub(super) fn of(store: &'a dyn Store, filter: &'a Filter) -> Self {
        Self { store, filter, cursor: None, ended: false }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Vec<RecordView>>, Failure> {
        while !self.ended {
            let page = self.store.list(self.filter, self.cursor.take(), PART).await.map_err(|e| store_failure(&e))?;
            self.ended = page.next.is_none();
            self.cursor = page.next;
            let records: Vec<_> =
                page.records.iter().filter_map(|listed| RecordView::of_listed(listed, true)).collect();
            if !records.is_empty() {
                return Ok(Some(records));
            }
        }
        Ok(None)
    }
}

fn json(records: &[RecordView], first: bool) -> Result<String, Failure> {
    let mut text = String::new();
    for (index, record) in records.iter().enumerate() {
        text.push_str(if first && index == 0 { "{\"records\":[" } else { ",\n" });
        text.push_str(&serde_json::to_string(record).map_err(Failure::failed)?);
    }
    Ok(text)
}

/// What clients chose stands last, so that it can't push the rest out of line.
fn rows(records: &[RecordView], first: bool) -> String {
    let head = ["ID", "STATE", "STARTED", "STATUS", "ATTEMPTS", "REPLAYS", "ROUTE", "SCOPE", "KEY"].map(str::to_owned);
    let rows = records.iter().map(|record| {
        [
            record.identity.id.clone(),
            record.state.to_owned(),
            record.times.started_at.clone(),
            record.response_status.map_or_else(|| "-".to_owned(), |status| status.to_string()),
            record.attempts.to_string(),
            record.replays.to_string(),
            visible(&record.origin.route),
            visible(&record.identity.scope),
            visible(&record.identity.key),
        ]
    });
    table(&first.then_some(head).into_iter().chain(rows).collect::<Vec<_>>())
}
