//! How the admin listener answers: JSON, and refusals that tell an operator what to do. Not the problems of the protocol:
//! those are for clients of the guarded API.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

/// A request that isn't carried out, and what to do about it.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    detail: String,
}

impl Refused {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    /// What to do about it.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// 400: the request itself must change.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 404 for an id without a record.
    pub(crate) fn no_record() -> Self {
        Self::new(StatusCode::NOT_FOUND, "There is no record with this id, or it has expired.")
    }
}

#[derive(Serialize)]
struct RefusedBody<'a> {
    title: &'a str,
    status: u16,
    detail: &'a str,
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Refused");
        let body = RefusedBody { title, status: self.status.as_u16(), detail: &self.detail };
        let mut response = (self.status, json(&body)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}

/// A JSON answer with status 200.
pub(crate) fn json<T: Serialize>(value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => {
            tracing::error!(%error, "an admin answer can't be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// The answer for any path that is not served.
pub(crate) async fn no_such_path() -> Refused {
    Refused::new(
        StatusCode::NOT_FOUND,
        "Served here: / (the dashboard), /healthz, /readyz, /metrics, /api/records, /api/records/{id}, /api/records/{id}/resolve, \
         /api/records/resolve, /api/records/purge, /api/audit, /api/sweep, /api/stats, /api/status, \
         /api/mismatches, /api/openapi.json.",
    )
}

/// The answer for a served path asked in a way it doesn't know; `Allow` beside it names the ways it does.
pub(crate) async fn no_such_method() -> Refused {
    Refused::new(StatusCode::METHOD_NOT_ALLOWED, "This path doesn't take this method; see the Allow header.")
}

/// Puts the fields on every answer that keep browsers from storing, sniffing or running it: records hold what clients sent.
pub(crate) async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // The dashboard's own files have said what they need.
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ));
    response
}
