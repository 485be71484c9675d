//! `GET /api/openapi.json`: what is served here, for programs. Written by hand; tests hold it against the routes and against
//! what they answer.

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;

const DOCUMENT: &str = include_str!("openapi.json");

/// The description.
pub(crate) async fn document() -> Response {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT).into_response()
}
