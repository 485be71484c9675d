//! `POST /api/records/resolve` and `/purge`: what a filter matches, in bounded portions.
//!
//! A call looks first and changes then, a portion a transaction: what it has changed stays changed, and the same call goes on
//! where an earlier one ended, since what was changed no longer matches.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::StatusCode;
use oncekey_core::RecordId;
use oncekey_store::{Acted, Filter, Operator};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::access::Caller;
use crate::answer::{Refused, json};
use crate::changes::{Work, gather, portions};
use crate::listing;
use crate::options::Admin;
use crate::records::{operator, unreadable_body};
use crate::resolution::{Ended, ResponseJson, Verdict, checked_reason};
use crate::view::ChangedView;

/// Records that one call changes at most.
const AT_ONCE: usize = 10_000;

/// When a call begins no further portion: well before it would be given up.
const ENOUGH: Duration = Duration::from_secs(40);

/// Ids that an answer names; the counts are of all.
const NAMED: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResolveJson {
    filter: Option<FilterJson>,
    #[serde(default)]
    all: bool,
    #[serde(rename = "as")]
    verdict: Ended,
    response: Option<ResponseJson>,
    reason: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PurgeJson {
    filter: Option<FilterJson>,
    #[serde(default)]
    all: bool,
    reason: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

/// A filter; each member is read as the parameter of that name in a listing.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilterJson {
    namespace: Option<String>,
    scope: Option<String>,
    key: Option<String>,
    state: Option<String>,
    route: Option<String>,
    older_than: Option<String>,
}

impl FilterJson {
    /// A namespace narrows nothing where there is only one, so it isn't enough. An empty text is refused: in a script it is a
    /// variable that wasn't set.
    fn read(self, all: bool) -> Result<Filter, Refused> {
        let members = [
            ("namespace", self.namespace),
            ("scope", self.scope),
            ("key", self.key),
            ("state", self.state),
            ("route", self.route),
            ("older_than", self.older_than),
        ];
        let mut filter = Filter::default();
        let mut narrows = false;
        for (name, value) in members {
            let Some(value) = value else { continue };
            if value.is_empty() {
                return Err(Refused::bad_request(format!("`filter.{name}` is empty; leave it out to match any.")));
            }
            narrows |= name != "namespace";
            listing::set_filter(&mut filter, name, value)?;
        }
        match (narrows, all) {
            (false, false) => Err(Refused::bad_request(
                "An empty `filter` would match every record; name a scope, key, state, route or age in it, or say \"all\": \
                 true beside it. Nothing was changed.",
            )),
            (true, true) => {
                Err(Refused::bad_request("\"all\": true and a `filter` contradict each other. Nothing was changed."))
            }
            _ => Ok(filter),
        }
    }
}

/// What a call is about.
struct Bulk {
    filter: Filter,
    work: Work,
    dry_run: bool,
    operator: Operator,
}

/// `POST /api/records/resolve`.
pub(crate) async fn resolve(
    State(admin): State<Arc<Admin>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refused> {
    let asked: ResolveJson = parse(body, "{\"filter\":{…},\"as\":\"completed\" or \"failed\",\"response\":{…}")?;
    let invalid = |error: crate::resolution::InvalidVerdict| Refused::bad_request(error.to_string());
    let work = Work::Resolve(Verdict::read(asked.verdict, asked.response).map_err(invalid)?);
    let operator = operator(&caller, checked_reason(asked.reason).map_err(invalid)?)?;
    let filter = asked.filter.unwrap_or_default().read(asked.all)?;
    run(&admin, Bulk { filter, work, dry_run: asked.dry_run, operator }).await
}

/// `POST /api/records/purge`.
pub(crate) async fn purge(
    State(admin): State<Arc<Admin>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refused> {
    let asked: PurgeJson = parse(body, "{\"filter\":{…}")?;
    let reason = checked_reason(asked.reason).map_err(|error| Refused::bad_request(error.to_string()))?;
    let operator = operator(&caller, reason)?;
    let filter = asked.filter.unwrap_or_default().read(asked.all)?;
    run(&admin, Bulk { filter, work: Work::Purge, dry_run: asked.dry_run, operator }).await
}

fn parse<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>, shape: &str) -> Result<T, Refused> {
    let body = body.map_err(|rejection| unreadable_body(&rejection))?;
    serde_json::from_slice(&body).map_err(|error| {
        Refused::bad_request(format!(
            "{error}; this call takes {shape}}}, with an optional \"reason\" and \"dry_run\": true, and \"all\": true in \
             place of a filter. Nothing was changed."
        ))
    })
}

async fn run(admin: &Admin, bulk: Bulk) -> Result<Response, Refused> {
    if let Some(why) = bulk.work.refuses(&bulk.filter) {
        return Err(Refused::bad_request(why));
    }
    let enough = Instant::now() + ENOUGH;
    let looking = gather(admin.store(), &bulk.filter, &bulk.work, admin.trusts_clock(), AT_ONCE);
    let gathered = admin.ask_within(ENOUGH, looking).await?;
    let mut answer = Answer { matched: gathered.ids.len(), changed: Vec::new(), more: gathered.more };
    if bulk.dry_run {
        return Ok(json(&answer.view(&bulk.work, &gathered.ids, 0)));
    }
    let order = bulk.work.order_for(&bulk.filter, bulk.operator.clone()).map_err(|_| no_randomness())?;
    for portion in portions(&gathered.ids) {
        if Instant::now() >= enough {
            answer.more = true;
            break;
        }
        let acted = admin.ask(admin.store().operate(portion, &order)).await;
        for id in portion {
            (admin.options.node.changed)(*id);
        }
        let acted = acted.map_err(|refused| answer.interrupted(&refused))?;
        let done = portion.iter().zip(acted).filter(|(_, acted)| *acted == Acted::Done);
        answer.changed.extend(done.map(|(id, _)| *id));
    }
    // Escaped: the reason is free text and must not forge a log line.
    tracing::info!(
        change = bulk.work.verb(),
        matched = answer.matched,
        changed = answer.changed.len(),
        call = bulk.operator.call,
        reason = ?bulk.operator.reason.as_deref().unwrap_or_default(),
        "an operator changed records"
    );
    let changed = answer.changed.len();
    Ok(json(&answer.view(&bulk.work, &answer.changed, changed)))
}

/// The machine gives no random bytes.
pub(crate) fn no_randomness() -> Refused {
    Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "This machine gives no random bytes; nothing was changed.")
}

/// What a call has come to.
struct Answer {
    matched: usize,
    changed: Vec<RecordId>,
    more: bool,
}

impl Answer {
    fn view(&self, work: &Work, ids: &[RecordId], changed: usize) -> ChangedView {
        ChangedView {
            matched: self.matched,
            changed,
            ids: ids.iter().take(NAMED).map(RecordId::to_string).collect(),
            more: self.more,
            retry: work.retry(),
        }
    }

    /// What was changed stays changed, so it is told.
    fn interrupted(&self, refused: &Refused) -> Refused {
        let (changed, matched) = (self.changed.len(), self.matched);
        Refused::new(
            refused.status,
            format!(
                "{} Before that, {changed} of {matched} records were changed; the same call goes on.",
                refused.detail()
            ),
        )
    }
}
