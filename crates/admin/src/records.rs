//! `/api/records`: list, show, resolve, purge. Each change leaves a line in the trail and in the log, and this node's replay
//! cache forgets the record at once (R8).

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Extension, FromRequestParts, Path, Query, State};
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use oncekey_core::RecordId;
use oncekey_store::{Acted, AuditFilter, Operator};
use serde::{Deserialize, Serialize};

use crate::access::Caller;
use crate::answer::{Refused, json};
use crate::bulk::no_randomness;
use crate::changes::{self, Work};
use crate::history;
use crate::listing::{Listing, PART_OF, seal};
use crate::options::Admin;
use crate::resolution::{MAX_BYTES, Verdict, checked_reason};
use crate::view::{ListView, RecordDetail, RecordView, ResponseView};

/// A query as it came.
pub(crate) type Pairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// `GET /api/records`. Expired records are left out, so a part is filled up from the following ones.
pub(crate) async fn list(State(admin): State<Arc<Admin>>, query: Pairs) -> Result<Response, Refused> {
    let mut listing = Listing::parse(pairs(query)?)?;
    let trust = admin.trusts_clock();
    let mut records = Vec::new();
    let next = loop {
        let cursor = listing.cursor.take();
        let page = admin.ask(admin.store().list(&listing.filter, cursor, listing.limit)).await?;
        let before = records.len();
        records.extend(page.records.iter().filter_map(|listed| RecordView::of_listed(listed, trust)));
        let added = u32::try_from(records.len() - before).unwrap_or(u32::MAX);
        listing.limit = listing.limit.saturating_sub(added);
        match page.next {
            Some(next) if listing.limit > 0 => listing.cursor = Some(next),
            next => break next,
        }
    };
    Ok(json(&ListView { records, next: next.as_ref().map(|cursor| seal(PART_OF, cursor)) }))
}

/// `GET /api/records/{id}`, with its story; with `?body=true` the recorded response too (A4).
pub(crate) async fn show(State(admin): State<Arc<Admin>>, Id(id): Id, query: Pairs) -> Result<Response, Refused> {
    let with_response = asks_for_body(&pairs(query)?)?;
    let found = admin.ask(admin.store().read(id)).await?.ok_or_else(Refused::no_record)?;
    let record = RecordView::of_found(&found, admin.trusts_clock()).ok_or_else(Refused::no_record)?;
    let about = AuditFilter { id: Some(id), ..AuditFilter::default() };
    let trail = admin.ask(admin.store().audit(&about, None, history::LINES)).await?;
    let history = history::history(&found.record, &record, &trail.lines);
    let response = with_response.then(|| found.response.as_deref().map(ResponseView::of));
    Ok(json(&RecordDetail { record, history, response }))
}

#[derive(Serialize)]
struct ActedView {
    id: String,
    /// Null: gone.
    state: Option<&'static str>,
    /// What the next retry with its key gets.
    retry: String,
}

/// `POST /api/records/{id}/resolve` (A3).
pub(crate) async fn resolve(
    State(admin): State<Arc<Admin>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refused> {
    let body = body.map_err(|rejection| unreadable_body(&rejection))?;
    let (verdict, reason) = Verdict::parse(&body).map_err(|error| Refused::bad_request(error.to_string()))?;
    act(&admin, &Work::Resolve(verdict), id, operator(&caller, reason)?).await
}

/// `DELETE /api/records/{id}`, with an optional reason in its body.
pub(crate) async fn purge(
    State(admin): State<Arc<Admin>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refused> {
    let reason = only_reason(body)?;
    act(&admin, &Work::Purge, id, operator(&caller, reason)?).await
}

async fn act(admin: &Admin, work: &Work, id: RecordId, operator: Operator) -> Result<Response, Refused> {
    let order = work.order(operator.clone()).map_err(|_| no_randomness())?;
    let acted = admin.ask(admin.store().operate(&[id], &order)).await;
    (admin.options.node.changed)(id);
    match acted?.first() {
        Some(Acted::Done) => {
            // Escaped: the reason is free text and must not forge a log line.
            tracing::info!(operation_id = %id, change = work.verb(), call = operator.call, reason = ?operator.reason.unwrap_or_default(), "an operator changed a record");
            let state = work.state().map(oncekey_core::State::name);
            Ok(json(&ActedView { id: id.to_string(), state, retry: work.retry() }))
        }
        Some(Acted::NotUnknown(state)) => Err(Refused::new(
            StatusCode::CONFLICT,
            format!("The record is {state}; only an unknown one can be resolved. Nothing was changed."),
        )),
        Some(Acted::Live) => Err(Refused::new(
            StatusCode::CONFLICT,
            "The operation is being executed; purging it could let a retry execute it twice. Nothing was changed.",
        )),
        Some(Acted::NotFound | Acted::Unmatched) | None => Err(Refused::no_record()),
    }
}

/// Who asks, for the trail.
pub(crate) fn operator(caller: &Caller, reason: Option<String>) -> Result<Operator, Refused> {
    let from = caller.from.map(|from| from.to_string());
    changes::operator(caller.role.name(), "api", from, reason).map_err(|_| no_randomness())
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReasonJson {
    reason: Option<String>,
}

/// The body of a call that takes nothing but a reason; there may be none.
pub(crate) fn only_reason(body: Result<Bytes, BytesRejection>) -> Result<Option<String>, Refused> {
    let body = body.map_err(|rejection| unreadable_body(&rejection))?;
    if body.trim_ascii().is_empty() {
        return Ok(None);
    }
    let asked: ReasonJson = serde_json::from_slice(&body).map_err(|error| {
        Refused::bad_request(format!("{error}; this call takes nothing but {{\"reason\":\"…\"}}. Nothing was changed."))
    })?;
    checked_reason(asked.reason).map_err(|error| Refused::bad_request(error.to_string()))
}

/// The `{id}` of a path. Text that is no id names no record, so it is as absent as any other.
pub(crate) struct Id(RecordId);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let text = Path::<String>::from_request_parts(parts, state).await.ok();
        text.and_then(|Path(text)| text.parse().ok()).map(Self).ok_or_else(Refused::no_record)
    }
}

/// The decoded pairs of a query.
pub(crate) fn pairs(query: Pairs) -> Result<Vec<(String, String)>, Refused> {
    query.map(|Query(pairs)| pairs).map_err(|_| Refused::bad_request("The query is not in the form name=value&…."))
}

fn asks_for_body(pairs: &[(String, String)]) -> Result<bool, Refused> {
    match pairs {
        [] => Ok(false),
        [(name, value)] if name == "body" && (value == "true" || value == "false") => Ok(value == "true"),
        _ => Err(Refused::bad_request("The only parameter here is `body`; allowed: true, false.")),
    }
}

/// A body that didn't come, or is too long.
pub(crate) fn unreadable_body(rejection: &BytesRejection) -> Refused {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let detail = format!("A verdict may have up to {MAX_BYTES} bytes; nothing was changed.");
        return Refused::new(StatusCode::PAYLOAD_TOO_LARGE, detail);
    }
    Refused::bad_request("The body ended early; nothing was changed.")
}
