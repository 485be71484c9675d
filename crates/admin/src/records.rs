//! `/api/records`: list, show, resolve, purge. Each change is logged with the operation id, and this node's replay cache
//! forgets the record at once (R8).

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use oncekey_core::RecordId;
use oncekey_store::{Purged, Resolved};
use serde::Serialize;

use crate::answer::{Refused, json};
use crate::listing::{Listing, seal};
use crate::options::Admin;
use crate::resolution::{MAX_BYTES, Verdict};
use crate::view::{ListView, RecordView, RecordWithResponse, ResponseView};

type Pairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

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
    Ok(json(&ListView { records, next: next.as_ref().map(seal) }))
}

/// `GET /api/records/{id}`; with `?body=true` the recorded response too (A4).
pub(crate) async fn show(State(admin): State<Arc<Admin>>, Id(id): Id, query: Pairs) -> Result<Response, Refused> {
    let with_response = asks_for_body(&pairs(query)?)?;
    let found = admin.ask(admin.store().read(id)).await?.ok_or_else(Refused::no_record)?;
    let record = RecordView::of_found(&found, admin.trusts_clock()).ok_or_else(Refused::no_record)?;
    if !with_response {
        return Ok(json(&record));
    }
    let response = found.response.as_deref().map(ResponseView::of);
    Ok(json(&RecordWithResponse { record, response }))
}

#[derive(Serialize)]
struct ResolvedView {
    id: String,
    state: &'static str,
}

/// `POST /api/records/{id}/resolve` (A3).
pub(crate) async fn resolve(
    State(admin): State<Arc<Admin>>,
    Id(id): Id,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refused> {
    let body = body.map_err(|rejection| unreadable_body(&rejection))?;
    let verdict = Verdict::parse(&body).map_err(|error| Refused::bad_request(error.to_string()))?;
    let resolution = verdict.resolution().map_err(|_| {
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "This machine gives no random bytes; nothing was changed.")
    })?;
    let resolved = admin.ask(admin.store().resolve(id, resolution)).await;
    (admin.options.node.changed)(id);
    match resolved? {
        Resolved::Done => {
            let state = if verdict.response.is_some() { "completed" } else { "failed" };
            // Escaped: the reason is free text and must not forge a log line.
            tracing::info!(operation_id = %id, state, reason = ?verdict.reason.as_deref().unwrap_or_default(), "an operator resolved a record");
            Ok(json(&ResolvedView { id: id.to_string(), state }))
        }
        Resolved::NotFound => Err(Refused::no_record()),
        Resolved::NotUnknown(state) => Err(Refused::new(
            StatusCode::CONFLICT,
            format!("The record is {state}; only an unknown one can be resolved. Nothing was changed."),
        )),
    }
}

/// `DELETE /api/records/{id}`.
pub(crate) async fn purge(State(admin): State<Arc<Admin>>, Id(id): Id) -> Result<StatusCode, Refused> {
    let purged = admin.ask(admin.store().purge(id)).await;
    (admin.options.node.changed)(id);
    match purged? {
        Purged::Done => {
            tracing::info!(operation_id = %id, "an operator purged a record");
            Ok(StatusCode::NO_CONTENT)
        }
        Purged::NotFound => Err(Refused::no_record()),
        Purged::Live => Err(Refused::new(
            StatusCode::CONFLICT,
            "The operation is being executed; purging it could let a retry execute it twice. Nothing was changed.",
        )),
    }
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

fn pairs(query: Pairs) -> Result<Vec<(String, String)>, Refused> {
    query.map(|Query(pairs)| pairs).map_err(|_| Refused::bad_request("The query is not in the form name=value&…."))
}

fn asks_for_body(pairs: &[(String, String)]) -> Result<bool, Refused> {
    match pairs {
        [] => Ok(false),
        [(name, value)] if name == "body" && (value == "true" || value == "false") => Ok(value == "true"),
        _ => Err(Refused::bad_request("The only parameter here is `body`; allowed: true, false.")),
    }
}

fn unreadable_body(rejection: &BytesRejection) -> Refused {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let detail = format!("A verdict may have up to {MAX_BYTES} bytes; nothing was changed.");
        return Refused::new(StatusCode::PAYLOAD_TOO_LARGE, detail);
    }
    Refused::bad_request("The body ended early; nothing was changed.")
}
