//! `oncekey records show`.

use oncekey_admin::history;
use oncekey_admin::view::{BodyView, EventView, RecordDetail, RecordView, ResponseView};
use oncekey_core::RecordId;
use oncekey_store::{AuditFilter, Filter, Found, Store};

use crate::exit::Failure;
use crate::operator::console::Console;
use crate::operator::list::Parts;
use crate::operator::screen::{table, visible, visible_lines};
use crate::operator::store_failure;

/// The record that is meant.
#[derive(Clone, Debug)]
pub(crate) enum One {
    /// By its operation id.
    Id(RecordId),
    /// By scope and key; a filter, since the scope's source is not named.
    Named(Filter),
}

/// How much of the record is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// All but the recorded response.
    Record,
    /// The recorded response too (A4).
    WithResponse,
}

/// Prints one record; without it, or with several under that scope and key, the command fails.
pub(crate) async fn show(
    store: &dyn Store,
    one: &One,
    detail: Detail,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let id = match one {
        One::Id(id) => *id,
        One::Named(filter) => the_only(store, filter).await?,
    };
    let (record, found) = read(store, id).await?;
    let about = AuditFilter { id: Some(id), ..AuditFilter::default() };
    let trail = store.audit(&about, None, history::LINES).await.map_err(|error| store_failure(&error))?;
    let history = history::history(&found.record, &record, &trail.lines);
    let response = (detail == Detail::WithResponse).then(|| found.response.as_deref().map(ResponseView::of));
    let shown = RecordDetail { record, history, response };
    if console.json {
        return console.print_json(&shown).map(drop);
    }
    let response = shown.response.as_ref().map_or_else(String::new, |response| exchange(response.as_ref()));
    console.print(&(fields(&shown.record) + &story(&shown.history) + &response)).map(drop)
}

/// Reads a record as it counts now; an expired one is absent (E9).
pub(super) async fn read(store: &dyn Store, id: RecordId) -> Result<(RecordView, Found), Failure> {
    let found = store.read(id).await.map_err(|error| store_failure(&error))?;
    let seen = found.and_then(|found| Some((RecordView::of_found(&found, true)?, found)));
    seen.ok_or_else(|| Failure::failed(format_args!("There is no record {id}, or it has expired.")))
}

/// One scope value read from two sources is two scopes (S1), so a scope and a key may name several records.
async fn the_only(store: &dyn Store, filter: &Filter) -> Result<RecordId, Failure> {
    let mut parts = Parts::of(store, filter);
    let mut ids = Vec::new();
    while let Some(records) = parts.next().await? {
        ids.extend(records.into_iter().map(|record| record.identity.id));
    }
    match ids.as_slice() {
        [] => Err(Failure::failed("There is no record of this scope and key, or it has expired.")),
        [id] => id.parse().map_err(Failure::failed),
        several => {
            Err(Failure::failed(format_args!("Several records match; name one by its id: {}", several.join(", "))))
        }
    }
}

fn fields(record: &RecordView) -> String {
    let (identity, origin, times) = (&record.identity, &record.origin, &record.times);
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let rows = [
        ("id", identity.id.clone()),
        ("namespace", identity.namespace.clone()),
        ("scope", visible(&identity.scope)),
        ("scope_source", visible(&identity.scope_source)),
        ("key", visible(&identity.key)),
        ("state", record.state.to_owned()),
        ("route", visible(&origin.route)),
        ("method", visible(&origin.method)),
        ("path", visible(&origin.path)),
        ("fingerprint", origin.fingerprint.clone()),
        ("created_at", times.created_at.clone()),
        ("started_at", times.started_at.clone()),
        ("completed_at", or_none(times.completed_at.clone())),
        ("expires_at", or_none(times.expires_at.clone())),
        ("response_status", or_none(record.response_status.map(|status| status.to_string()))),
        ("attempts", record.attempts.to_string()),
        ("replays", record.replays.to_string()),
        ("owner", record.owner.clone()),
    ];
    table(&rows.map(|(name, value)| [name.to_owned(), value]))
}

fn story(events: &[EventView]) -> String {
    let rows: Vec<_> = events
        .iter()
        .map(|event| {
            [event.at.clone().unwrap_or_else(|| "-".to_owned()), event.event.to_owned(), visible(&event.detail)]
        })
        .collect();
    format!("\n{}", table(&rows))
}

fn exchange(response: Option<&ResponseView>) -> String {
    let Some(response) = response else { return "\nNo response is recorded.\n".to_owned() };
    let lines = |lines: &[(String, String)]| -> String {
        lines.iter().map(|(name, value)| [name, ": ", &visible(value), "\n"].concat()).collect()
    };
    let head = lines(&response.headers);
    let body = match &response.body {
        BodyView::Body(body) => visible_lines(body),
        BodyView::BodyBase64(body) => format!("(base64) {body}"),
        BodyView::BodyStored(_) => "(the body was not kept)".to_owned(),
    };
    let trailers = match &response.trailers[..] {
        [] => String::new(),
        trailers => format!("\n(trailers)\n{}", lines(trailers)),
    };
    format!("\n{}\n{head}\n{body}\n{trailers}", response.status)
}
