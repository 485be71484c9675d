//! The dashboard: a page, a style sheet and a few scripts, in the program itself. They hold no data, so they are served to
//! whoever may reach the listener; what they show they ask the API for.

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};

/// Scripts and styles from here alone, none of them inline, and nothing to be framed, loaded or sent elsewhere.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, type and content of each file.
const FILES: [(&str, &str, &str); 10] = [
    ("/", "text/html; charset=utf-8", include_str!("dashboard/index.html")),
    ("/dashboard/style.css", "text/css; charset=utf-8", include_str!("dashboard/style.css")),
    ("/dashboard/main.js", SCRIPT, include_str!("dashboard/main.js")),
    ("/dashboard/api.js", SCRIPT, include_str!("dashboard/api.js")),
    ("/dashboard/text.js", SCRIPT, include_str!("dashboard/text.js")),
    ("/dashboard/chart.js", SCRIPT, include_str!("dashboard/chart.js")),
    ("/dashboard/live.js", SCRIPT, include_str!("dashboard/live.js")),
    ("/dashboard/records.js", SCRIPT, include_str!("dashboard/records.js")),
    ("/dashboard/record.js", SCRIPT, include_str!("dashboard/record.js")),
    ("/dashboard/change.js", SCRIPT, include_str!("dashboard/change.js")),
];

/// Whether a path is one of the dashboard's files.
pub(crate) fn serves(path: &str) -> bool {
    FILES.iter().any(|(known, ..)| *known == path)
}

/// The routes of the files.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.iter().fold(Router::new(), |router, (path, media_type, content)| {
        router.route(path, get(move || async move { file(media_type, content) }))
    })
}

fn file(media_type: &'static str, content: &'static str) -> Response {
    let fields: [(HeaderName, HeaderValue); 2] =
        [(CONTENT_TYPE, HeaderValue::from_static(media_type)), (CONTENT_SECURITY_POLICY, POLICY)];
    (fields, content).into_response()
}
