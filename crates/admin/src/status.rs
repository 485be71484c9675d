//! `GET /api/status`: is it us, the upstream or the store, since when, and what the last half an hour was like here.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use crate::answer::json;
use crate::options::{Admin, Readiness};
use crate::recent::{Condition, Sample, Since};
use crate::view::Mismatching;

#[derive(Serialize)]
struct StatusView {
    node: Since<Readiness>,
    upstream: Since<Condition>,
    store: Since<Condition>,
    class: Option<Since<&'static str>>,
    /// When this process began, in seconds since 1970.
    started: u64,
    version: String,
    /// What the counters said every five seconds, oldest first.
    samples: VecDeque<Sample>,
}

/// Only this node is spoken of, and only from memory: it answers when the store doesn't.
pub(crate) async fn status(State(admin): State<Arc<Admin>>) -> Response {
    let options = &admin.options;
    options.recent.note(*options.readiness.borrow(), options.classes.borrow().lowest());
    let kept = options.recent.kept();
    json(&StatusView {
        node: kept.node,
        upstream: kept.upstream,
        store: kept.store,
        class: kept.class,
        started: kept.started,
        version: options.version.clone(),
        samples: kept.samples,
    })
}

/// Scopes shown.
const SCOPES: usize = 20;

#[derive(Serialize)]
struct MismatchesView {
    scopes: Vec<Mismatching>,
}

/// `GET /api/mismatches`: the scopes that sent the same key with another request most, on this node since its start.
pub(crate) async fn mismatches(State(admin): State<Arc<Admin>>) -> Response {
    json(&MismatchesView { scopes: (admin.options.node.mismatches)(SCOPES) })
}
