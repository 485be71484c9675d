//! `/healthz` and `/readyz`: whether the process lives, and whether it takes traffic (D4).

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use oncekey_core::RecordId;

use crate::options::{Admin, Readiness};

/// `GET /healthz`: that this is answered says it all.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: not the store's health, or a blip of the store would take every node out at once (D4). `?store` asks it.
pub(crate) async fn ready(State(admin): State<Arc<Admin>>, query: Query<Vec<(String, String)>>) -> Response {
    let readiness = *admin.options.readiness.borrow();
    match readiness {
        Readiness::Starting => return (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response(),
        Readiness::Draining => return (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response(),
        Readiness::Ready => {}
    }
    if query.iter().any(|(name, _)| name == "store") && !store_answers(&admin).await {
        return (StatusCode::SERVICE_UNAVAILABLE, "store unavailable\n").into_response();
    }
    "ready\n".into_response()
}

/// Looks up an id that no record has: the cheapest call that goes all the way to the data.
async fn store_answers(admin: &Admin) -> bool {
    admin.ask(admin.store().read(RecordId::from_bytes([0; 16]))).await.is_ok()
}
