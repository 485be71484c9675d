//! The admin listener of oncekey: health, metrics, and an operator's hands on records.
//!
//! [`router`] builds the service, [`serve`] runs it on a listener of its own, apart from the guarded traffic. It works on
//! any [`oncekey_store::Store`] and judges nothing itself: what a record counts as is `oncekey-core`'s to say, what may
//! change is the store's (A3).
//!
//! The one decision: who may ask is settled by one pure function ([`Access`]) before any handler runs, from the listener
//! and the tokens alone: one to look, one to look and change. Without any, a loopback listener is open to local programs but
//! not to web pages, and any other address serves health and metrics only. The price: a reverse proxy in front of a loopback
//! listener needs a token.
//!
//! The shapes of records ([`view`]), of an operator's verdict ([`resolution`]) and trail ([`audit`]), and the ways to change
//! records ([`changes`]) are shared with the command line, so that `--json` and the API say and do the same thing.
//!
//! The dashboard at `/` is a client of the API like any other; it holds no data, so its files are served without a token.
//!
//! Left to others: the counters' values (the HTTP layer), readiness and the classes in force (the program).

mod access;
mod answer;
pub mod audit;
mod bulk;
pub mod changes;
mod dashboard;
mod health;
pub mod history;
mod listing;
mod maintenance;
mod metrics;
mod openapi;
mod options;
mod recent;
mod records;
pub mod resolution;
mod serve;
mod status;
pub mod view;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};

pub use access::{Access, AdminToken, EmptyToken, SameTokens, Tokens};
pub use maintenance::{SweepView, store_now};
pub use metrics::{install_metrics, keep_metrics, publish_build, publish_class, publish_declared, publish_reload};
pub use options::{AdminOptions, Node, Readiness};
pub use recent::Recent;
pub use serve::serve;

/// The routes of the admin listener, behind its checks.
pub fn router(options: AdminOptions) -> Router {
    let admin = Arc::new(options::Admin::new(options));
    let api = Router::new()
        .route("/api/records", get(records::list))
        .route("/api/records/{id}", get(records::show).delete(records::purge))
        .route("/api/records/{id}/resolve", post(records::resolve).layer(resolution::body_limit()))
        .route("/api/records/resolve", post(bulk::resolve).layer(resolution::body_limit()))
        .route("/api/records/purge", post(bulk::purge))
        .route("/api/audit", get(audit::list))
        .route("/api/openapi.json", get(openapi::document))
        .route("/api/sweep", post(maintenance::sweep))
        .route("/api/stats", get(maintenance::stats))
        .route("/api/status", get(status::status))
        .route("/api/mismatches", get(status::mismatches))
        .layer(from_fn_with_state(Arc::clone(&admin), options::admit));
    Router::new()
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::render))
        .merge(dashboard::routes())
        .merge(api)
        .fallback(answer::no_such_path)
        .method_not_allowed_fallback(answer::no_such_method)
        .layer(from_fn_with_state(Arc::clone(&admin), access::guard))
        .layer(from_fn(answer::harden))
        .with_state(admin)
}
