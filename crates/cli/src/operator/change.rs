//! `oncekey records resolve` and `purge`: one record by its id, or those that a filter matches.

use oncekey_admin::changes::{Gathered, Work, gather, portions};
use oncekey_admin::resolution::Verdict;
use oncekey_admin::view::ChangedView;
use oncekey_core::RecordId;
use oncekey_store::{Acted, Filter, Operator, Store};

use crate::exit::Failure;
use crate::operator::console::Console;
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
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Only show what would be changed.
    pub(crate) dry_run: bool,
    /// Don't ask before changing what a filter matches; a single id is never asked about.
    pub(crate) yes: bool,
    /// Who does it, and why: for the trail.
    pub(crate) operator: Operator,
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
    run(store, &selection, &Work::Resolve(verdict.clone()), change, console).await
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

async fn run(
    store: &dyn Store,
    selection: &Selection,
    work: &Work,
    change: &Change,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    match selection {
        Selection::Id(id) if change.dry_run => {
            let (record, _) = read(store, *id).await?;
            if work.applies_to(record.state) {
                return report_dry_run(work, &[*id], console);
            }
            let acted = record.state.parse().map_or(Acted::NotFound, |state| match work {
                Work::Resolve(_) => Acted::NotUnknown(state),
                Work::Purge => Acted::Live,
            });
            Err(Failure::failed(work.left(*id, acted).unwrap_or_default()))
        }
        Selection::Id(id) => change_one(store, *id, work, change, console).await,
        Selection::Matching(filter) => {
            if let Some(why) = work.refuses(filter) {
                return Err(Failure::usage(why));
            }
            // Gathered before the first change: what was asked about is what is changed.
            let gathered = gather(store, filter, work, true, usize::MAX).await;
            let Gathered { ids, .. } = gathered.map_err(|error| store_failure(&error))?;
            if change.dry_run {
                return report_dry_run(work, &ids, console);
            }
            if ids.is_empty() || change.yes || console.confirm(&question(work, &ids))? {
                return change_all(store, filter, &ids, work, change, console).await;
            }
            Err(Failure::failed("Nothing was changed."))
        }
    }
}

fn question(work: &Work, ids: &[RecordId]) -> String {
    format!("{} {}?", if matches!(work, Work::Purge) { "Purge" } else { "Resolve" }, count(ids.len()))
}

async fn change_one(
    store: &dyn Store,
    id: RecordId,
    work: &Work,
    change: &Change,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let order = work.order(change.operator.clone()).map_err(Failure::failed)?;
    let acted = store.operate(&[id], &order).await.map_err(|error| store_failure(&error))?;
    if let Some(why) = work.left(id, acted.first().copied().unwrap_or(Acted::NotFound)) {
        return Err(Failure::failed(why));
    }
    log(work, 1, change);
    report(work, 1, &[id], console)
}

async fn change_all(
    store: &dyn Store,
    filter: &Filter,
    ids: &[RecordId],
    work: &Work,
    change: &Change,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let order = work.order_for(filter, change.operator.clone()).map_err(Failure::failed)?;
    let mut changed = Vec::new();
    let mut failed = None;
    for portion in portions(ids) {
        match store.operate(portion, &order).await {
            Ok(acted) => {
                for (id, acted) in portion.iter().zip(acted) {
                    match work.left(*id, acted) {
                        None => changed.push(*id),
                        Some(why) => console.say(&why),
                    }
                }
            }
            // What was changed stays changed, so it is told before the command fails.
            Err(error) => {
                failed = Some(store_failure(&error));
                break;
            }
        }
    }
    log(work, changed.len(), change);
    report(work, ids.len(), &changed, console)?;
    failed.map_or(Ok(()), Err)
}

/// Escaped: the reason is free text and must not forge a log line.
fn log(work: &Work, changed: usize, change: &Change) {
    let operator = &change.operator;
    tracing::info!(change = work.verb(), changed, call = operator.call, reason = ?operator.reason.as_deref().unwrap_or_default(), "an operator changed records");
}

fn report(work: &Work, matched: usize, changed: &[RecordId], console: &mut Console<'_>) -> Result<(), Failure> {
    print(work, matched, changed.len(), changed, console)?;
    if matched != 1 || changed.len() != 1 {
        console.say(&format!("{} of {} changed.", changed.len(), count(matched)));
    }
    if !changed.is_empty() {
        let done = work.state().map_or_else(|| "Purged.".to_owned(), |state| format!("Resolved as {state}."));
        console.say(&format!("{done} {}", work.retry()));
    }
    Ok(())
}

fn report_dry_run(work: &Work, ids: &[RecordId], console: &mut Console<'_>) -> Result<(), Failure> {
    print(work, ids.len(), 0, ids, console)?;
    let as_state = work.state().map_or_else(String::new, |state| format!(" as {state}"));
    let (verb, count) = (work.verb(), count(ids.len()));
    console.say(&format!("Would {verb} {count}{as_state}; nothing was changed. After that: {}", work.retry()));
    Ok(())
}

fn print(
    work: &Work,
    matched: usize,
    changed: usize,
    ids: &[RecordId],
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    if console.json {
        let ids = ids.iter().take(NAMED).map(RecordId::to_string).collect();
        console.print_json(&ChangedView { matched, changed, ids, more: false, retry: work.retry() })?;
    } else {
        let lines: String = ids.iter().flat_map(|id| [id.to_string(), "\n".to_owned()]).collect();
        console.print(&lines)?;
    }
    Ok(())
}

fn count(records: usize) -> String {
    if records == 1 { "1 record".to_owned() } else { format!("{records} records") }
}
