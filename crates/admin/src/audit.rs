//! `GET /api/audit`: the trail of what operators did.

use std::fmt;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use oncekey_store::{AuditFilter, AuditLine, Change, Cursor};
use serde::Serialize;

use crate::answer::{Refused, json};
use crate::listing;
use crate::options::Admin;
use crate::records::{Pairs, pairs};
use crate::view::rfc3339;

const NAMES: [&str; 6] = ["id", "namespace", "scope", "key", "limit", "cursor"];

/// One line of the trail. Null where it says nothing: a sweep is about no record, a purged record became nothing.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct AuditView {
    /// When, by the store's clock.
    pub at: String,
    /// `resolve`, `purge` or `sweep`.
    pub action: &'static str,
    /// The record's operation id.
    pub id: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its scope.
    pub scope: Option<String>,
    /// Where its scope was read from.
    pub scope_source: Option<String>,
    /// Its key.
    pub key: Option<String>,
    /// The route of its request.
    pub route: Option<String>,
    /// What it counted as.
    pub before: Option<&'static str>,
    /// What it became; null for a purge: it is gone.
    pub after: Option<&'static str>,
    /// Status of the response that retries got since.
    pub response_status: Option<u16>,
    /// Expired records that a sweep deleted.
    pub deleted: Option<u64>,
    /// Lapsed claims that a sweep marked `unknown`.
    pub lapsed: Option<u64>,
    /// The role that was presented to the API, or the user that ran the command.
    pub who: String,
    /// `api` or `cli`.
    pub via: String,
    /// Where a call of the API came from.
    pub from: Option<String>,
    /// The operator's own words.
    pub reason: Option<String>,
    /// The same for all that one call or command did.
    pub call: String,
}

impl fmt::Debug for AuditView {
    /// Names no scope and no key; debug output ends in logs (P2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuditView({} {})", self.action, self.id.as_deref().unwrap_or("-"))
    }
}

impl AuditView {
    /// The view of a line.
    pub fn of(line: AuditLine) -> Self {
        let operator = line.operator;
        let nothing = Self {
            at: rfc3339(line.at),
            action: "sweep",
            id: None,
            namespace: None,
            scope: None,
            scope_source: None,
            key: None,
            route: None,
            before: None,
            after: None,
            response_status: None,
            deleted: None,
            lapsed: None,
            who: operator.who,
            via: operator.via,
            from: operator.from,
            reason: operator.reason,
            call: operator.call,
        };
        match line.change {
            Change::Swept { deleted, lapsed } => Self { deleted: Some(deleted), lapsed: Some(lapsed), ..nothing },
            Change::Record { subject, before, after, response_status } => Self {
                action: if after.is_some() { "resolve" } else { "purge" },
                id: Some(subject.id.to_string()),
                namespace: Some(subject.namespace),
                scope: Some(subject.scope),
                scope_source: Some(subject.scope_source),
                key: Some(subject.key),
                route: Some(subject.route),
                before: Some(before.name()),
                after: after.map(oncekey_core::State::name),
                response_status,
                ..nothing
            },
        }
    }
}

/// A part of the trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditListView {
    /// The lines, newest first.
    pub audit: Vec<AuditView>,
    /// The cursor of the next part; null at the end.
    pub next: Option<String>,
}

/// `GET /api/audit`.
pub(crate) async fn list(State(admin): State<Arc<Admin>>, query: Pairs) -> Result<Response, Refused> {
    let (filter, cursor, limit) = parse(pairs(query)?)?;
    let page = admin.ask(admin.store().audit(&filter, cursor, limit)).await?;
    let audit = page.lines.into_iter().map(AuditView::of).collect();
    Ok(json(&AuditListView { audit, next: page.next.as_ref().map(|cursor| listing::seal(PART_OF, cursor)) }))
}

/// What a cursor of the trail is sealed as: one of a listing of records isn't taken.
const PART_OF: &str = "audit";

fn parse(pairs: Vec<(String, String)>) -> Result<(AuditFilter, Option<Cursor>, u32), Refused> {
    let (mut filter, mut cursor, mut limit) = (AuditFilter::default(), None, listing::DEFAULT_LIMIT);
    for (name, value) in listing::distinct(pairs, &NAMES)? {
        match name.as_str() {
            "id" => {
                let wrong =
                    |_| Refused::bad_request("`id` is no operation id, like 0f0e0d0c-0b0a-8908-8706-050403020100.");
                filter.id = Some(value.parse().map_err(wrong)?);
            }
            "namespace" => filter.namespace = Some(value),
            "scope" => filter.scope = Some(value),
            "key" => filter.key = Some(value),
            "limit" => limit = listing::limit(&value)?,
            _ => cursor = Some(listing::unseal(PART_OF, &value)?),
        }
    }
    Ok((filter, cursor, limit))
}
