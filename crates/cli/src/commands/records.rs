//! `oncekey records …`: from arguments to an operator's work on the store.

use std::path::Path;

use oncekey_admin::resolution::{self, parse_response};
use oncekey_core::Namespace;
use oncekey_store::{AuditFilter, Filter};

use super::{signed, with_console};
use crate::arguments::{Change, OneRecord, RecordFilter, RecordsCommand, Selection, Trail, Verdict};
use crate::exit::Failure;
use crate::opening;
use crate::operator::{self, Detail, One};
use crate::settings::Loaded;

/// Runs a command on records, as `user`.
pub(super) async fn run(command: RecordsCommand, loaded: Loaded, user: String) -> Result<(), Failure> {
    let config = &loaded.config.store;
    let namespace = &config.namespace;
    match command {
        RecordsCommand::List { filter, output } => {
            let (store, filter) = (opening::for_operator(config).await?, within(namespace, filter));
            with_console(output.json, async |console| operator::list(&*store, &filter, console).await).await
        }
        RecordsCommand::Show { record, body, output } => {
            let (store, record) = (opening::for_operator(config).await?, one(namespace, record));
            let detail = if body { Detail::WithResponse } else { Detail::Record };
            with_console(output.json, async |console| operator::show(&*store, &record, detail, console).await).await
        }
        RecordsCommand::Resolve { selection, verdict, response, change, output } => {
            let change = how(change, user)?;
            let verdict = judged(verdict, response.as_deref())?;
            let (store, selection) = (opening::for_operator(config).await?, selected(namespace, selection));
            let resolve = async |console: &mut operator::Console<'_>| {
                operator::resolve(&*store, selection, &verdict, &change, console).await
            };
            with_console(output.json, resolve).await
        }
        RecordsCommand::Purge { selection, change, output } => {
            let change = how(change, user)?;
            let (store, selection) = (opening::for_operator(config).await?, selected(namespace, selection));
            let purge =
                async |console: &mut operator::Console<'_>| operator::purge(&*store, selection, &change, console).await;
            with_console(output.json, purge).await
        }
        RecordsCommand::Audit { trail, output } => {
            let limit = trail.limit;
            let (store, filter) = (opening::for_operator(config).await?, about(namespace, trail));
            let audit =
                async |console: &mut operator::Console<'_>| operator::audit(&*store, &filter, limit, console).await;
            with_console(output.json, audit).await
        }
    }
}

fn within(namespace: &Namespace, filter: RecordFilter) -> Filter {
    let RecordFilter { scope, key, state, route, older_than } = filter;
    Filter { namespace: Some(namespace.as_str().to_owned()), scope, key, state, route, older_than }
}

fn one(namespace: &Namespace, record: OneRecord) -> One {
    let OneRecord { id, scope, key } = record;
    let namespace = Some(namespace.as_str().to_owned());
    id.map_or_else(|| One::Named(Filter { namespace, scope, key, ..Filter::default() }), One::Id)
}

/// A scope or a key is meant within the namespace; the whole trail is that of the store, since a sweep is no namespace's.
fn about(namespace: &Namespace, trail: Trail) -> AuditFilter {
    let Trail { id, scope, key, limit: _ } = trail;
    let namespace = (scope.is_some() || key.is_some()).then(|| namespace.as_str().to_owned());
    AuditFilter { id, namespace, scope, key }
}

fn selected(namespace: &Namespace, selection: Selection) -> operator::Selection {
    let Selection { id, all: _, filter } = selection;
    match id {
        Some(id) => operator::Selection::Id(id),
        None => operator::Selection::Matching(within(namespace, filter)),
    }
}

fn how(change: Change, user: String) -> Result<operator::Change, Failure> {
    let Change { dry_run, yes, reason } = change;
    Ok(operator::Change { dry_run, yes, operator: signed(user, reason)? })
}

fn judged(verdict: Verdict, response: Option<&Path>) -> Result<resolution::Verdict, Failure> {
    let response = match (verdict, response) {
        (Verdict::Failed, _) => None,
        (Verdict::Completed, None) => {
            return Err(Failure::usage("--as completed needs --response FILE: what retries will get"));
        }
        (Verdict::Completed, Some(file)) => {
            let unusable = |what: &dyn std::fmt::Display| Failure::usage(format_args!("{}: {what}", file.display()));
            let json = std::fs::read(file).map_err(|error| unusable(&error))?;
            Some(parse_response(&json).map_err(|error| unusable(&error))?.into())
        }
    };
    Ok(resolution::Verdict { response })
}
