//! The problems that the gateway answers without the layer: a request that is no HTTP, and unguarded traffic whose upstream
//! gave no answer (P1).

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use oncekey_tower::ResponseBody;

const PROBLEM: HeaderName = HeaderName::from_static("oncekey-problem");

/// A request that breaks the rules of HTTP itself (H1). `detail` says which.
pub(super) fn request_invalid(detail: &str) -> Response<ResponseBody> {
    render(StatusCode::BAD_REQUEST, "request-invalid", ["The request is not valid HTTP", detail, "never"])
}

/// Nothing was executed, or the method is safe to repeat (E6).
pub(super) fn upstream_unreachable() -> Response<ResponseBody> {
    let detail = "The upstream gave no answer and nothing took effect; repeat the request as it is.";
    let words = ["The upstream can't be reached", detail, "same-key"];
    let mut response = render(StatusCode::BAD_GATEWAY, "upstream-unreachable", words);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("2"));
    response
}

/// The request was sent and its answer was lost (E7); no record was kept, so repeating it may execute it again.
pub(super) fn outcome_unknown() -> Response<ResponseBody> {
    let detail = "The upstream may have executed the request, but its answer was lost; find out before you repeat it.";
    let words = ["The outcome is unknown", detail, "never"];
    render(StatusCode::GATEWAY_TIMEOUT, "outcome-unknown", words)
}

/// `words` are title, detail and retry; none needs escaping in JSON.
fn render(status: StatusCode, code: &'static str, words: [&str; 3]) -> Response<ResponseBody> {
    let [title, detail, retry] = words;
    let status_number = status.as_u16();
    let body = format!(
        r#"{{"type":"urn:oncekey:problem:{code}","title":"{title}","status":{status_number},"detail":"{detail}","code":"{code}","retry":"{retry}"}}"#
    );
    let mut response = Response::new(ResponseBody::whole(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(PROBLEM, HeaderValue::from_static(code));
    response
}
