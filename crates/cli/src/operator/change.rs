//! `oncekey records resolve` and `purge`: one record by its id, or those that a filter matches.

use oncekey_admin::resolution::Verdict;
use oncekey_core::{RecordId, State};
use oncekey_store::{Filter, Purged, Resolved, Store};
use serde::Serialize;

use crate::exit::Failure;
use crate::operator::console::Console;
use crate::operator::list::Parts;
use crate::operator::show::read;
use crate::operator::store_failure;

/// Ids that `--json` names; the counts are of all.
const NAMED: usize = 100;

/// The records that are to be changed.
#[derive(Clone, Debug)]
pub(crate) enum Selection {
    /// One, by its operation id.
    Id(RecordId),
    /// All that match.
    Matching(Filter),
}

/// How a change is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    /// Only show what would be changed.
    pub(crate) dry_run: bool,
    /// Don't ask before changing what a filter matches; a single id is never asked about.
    pub(crate) yes: bool,
    /// The operator's own words, for the log.
    pub(crate) reason: Option<String>,
}

/// What `--json` prints of a change.
#[derive(Serialize)]
struct Report {
    matched: usize,
    changed: usize,
    ids: Vec<String>,
}

/// Settles records that are `unknown` (A3), and says what the next retry will get. A filter matches unknown records only;
/// asking for another state is wrong usage. A record that meanwhile isn't unknown any more is left as it is.
pub(crate) async fn resolve(
    store: &dyn Store,
    selection: Selection,
    verdict: &Verdict,
    change: &Change,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let selection = match selection {
        Selection::Matching(Filter { state: Some(state), .. }) if state != State::Unknown => {
            return Err(Failure::usage(format_args!("Only unknown records can be resolved, not {state} ones.")));
        }
        Selection::Matching(filter) => Selection::Matching(Filter { state: Some(State::Unknown), ..filter }),
        Selection::Id(id) => Selection::Id(id),
    };
    let work = Work::Resolve(verdict);
    run(store, &selection, &work, change, console).await
}

/// Deletes records, and says what the next request with such a key will meet. A record that is being executed is left as it
/// is.
pub(crate) async fn purge(
    store: &dyn Store,
    selection: Selection,
    change: &Change,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    run(store, &selection, &Work::Purge, change, console).await
}

enum Work<'a> {
    Resolve(&'a Verdict),
    Purge,
}

impl Work<'_> {
    fn verb(&self) -> &'static str {
        match self {
            Self::Resolve(_) => "resolve",
            Self::Purge => "purge",
        }
    }

    /// What happens to the next request with the key of a changed record.
    fn consequence(&self) -> String {
        match self {
            Self::Resolve(verdict) => format!("Resolved as {}.", verdict.consequence()),
            Self::Purge => "Purged: the next request with such a key executes as a new operation.".to_owned(),
        }
    }

    /// Changes one record; `Some` says why it was left as it is.
    async fn apply(&self, store: &dyn Store, id: RecordId) -> Result<Option<String>, Failure> {
        let fails = |error| store_failure(&error);
        Ok(match self {
            Self::Purge => match store.purge(id).await.map_err(fails)? {
                Purged::Done => None,
                Purged::NotFound => Some(absent(id)),
                Purged::Live => Some(format!("{id} is being executed; purging it could let a retry execute it twice.")),
            },
            Self::Resolve(verdict) => {
                let resolution = verdict.resolution().map_err(Failure::failed)?;
                match store.resolve(id, resolution).await.map_err(fails)? {
                    Resolved::Done => None,
                    Resolved::NotFound => Some(absent(id)),
                    Resolved::NotUnknown(state) => Some(format!("{id} is {state}; only unknown records are resolved.")),
                }
            }
        })
    }

    /// Why a record that counts as `state` can't be changed.
    fn refuses(&self, id: &str, state: &str) -> Option<String> {
        match self {
            Self::Resolve(_) if state != State::Unknown.name() => {
                Some(format!("{id} is {state}; only unknown records are resolved."))
            }
            Self::Purge if state == State::Processing.name() => Some(format!("{id} is being executed.")),
            _ => None,
        }
    }
}

fn absent(id: RecordId) -> String {
    format!("There is no record {id}, or it has expired.")
}

async fn run(
    store: &dyn Store,
    selection: &Selection,
    work: &Work<'_>,
    change: &Change,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    match selection {
        Selection::Id(id) if change.dry_run => {
            let (record, _) = read(store, *id).await?;
            match work.refuses(&record.identity.id, record.state) {
                Some(why) => Err(Failure::failed(why)),
                None => report_dry_run(work, &[*id], console),
            }
        }
        Selection::Id(id) => match work.apply(store, *id).await? {
            None => {
                log(work, *id, change);
                report(work, 1, &[*id], console)
            }
            Some(why) => Err(Failure::failed(why)),
        },
        Selection::Matching(filter) => {
            let ids = matching(store, filter, work).await?;
            if change.dry_run {
                return report_dry_run(work, &ids, console);
            }
            if ids.is_empty() || change.yes || console.confirm(&question(work, &ids))? {
                return change_all(store, &ids, work, change, console).await;
            }
            Err(Failure::failed("Nothing was changed."))
        }
    }
}

/// The ids are gathered before the first change: what was asked about is what is changed.
async fn matching(store: &dyn Store, filter: &Filter, work: &Work<'_>) -> Result<Vec<RecordId>, Failure> {
    let mut parts = Parts::of(store, filter);
    let mut ids = Vec::new();
    while let Some(records) = parts.next().await? {
        for record in records.iter().filter(|record| work.refuses(&record.identity.id, record.state).is_none()) {
            ids.push(record.identity.id.parse().map_err(Failure::failed)?);
        }
    }
    Ok(ids)
}

fn question(work: &Work<'_>, ids: &[RecordId]) -> String {
    format!("{} {}?", if matches!(work, Work::Purge) { "Purge" } else { "Resolve" }, count(ids.len()))
}

async fn change_all(
    store: &dyn Store,
    ids: &[RecordId],
    work: &Work<'_>,
    change: &Change,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let mut changed = Vec::new();
    for id in ids {
        match work.apply(store, *id).await {
            Ok(None) => {
                log(work, *id, change);
                changed.push(*id);
            }
            Ok(Some(why)) => console.say(&why),
            Err(failure) => {
                // What was changed stays changed, so it is told before the command fails.
                report(work, ids.len(), &changed, console)?;
                return Err(failure);
            }
        }
    }
    report(work, ids.len(), &changed, console)
}

/// Escaped: the reason is free text and must not forge a log line.
fn log(work: &Work<'_>, id: RecordId, change: &Change) {
    tracing::info!(operation_id = %id, change = work.verb(), reason = ?change.reason.as_deref().unwrap_or_default(), "an operator changed a record");
}

fn report(work: &Work<'_>, matched: usize, changed: &[RecordId], console: &mut Console<'_>) -> Result<(), Failure> {
    print(matched, changed.len(), changed, console)?;
    if matched != 1 || changed.len() != 1 {
        console.say(&format!("{} of {} changed.", changed.len(), count(matched)));
    }
    if !changed.is_empty() {
        console.say(&work.consequence());
    }
    Ok(())
}

fn report_dry_run(work: &Work<'_>, ids: &[RecordId], console: &mut Console<'_>) -> Result<(), Failure> {
    print(ids.len(), 0, ids, console)?;
    console.say(&format!("Would {} {}; nothing was changed.", work.verb(), count(ids.len())));
    Ok(())
}

fn print(matched: usize, changed: usize, ids: &[RecordId], console: &mut Console<'_>) -> Result<(), Failure> {
    if console.json {
        let ids = ids.iter().take(NAMED).map(RecordId::to_string).collect();
        console.print_json(&Report { matched, changed, ids })?;
    } else {
        let lines: String = ids.iter().flat_map(|id| [id.to_string(), "\n".to_owned()]).collect();
        console.print(&lines)?;
    }
    Ok(())
}

fn count(records: usize) -> String {
    if records == 1 { "1 record".to_owned() } else { format!("{records} records") }
}
