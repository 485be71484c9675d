//! The answers that oncekey makes itself: problems, and the 202 of W2 (rules P, W2). What a replay says is `answer`'s.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use oncekey_core::problem::{Problem, Style};

use crate::answer::{OPERATION_ID, ascii};
use crate::body::ResponseBody;

const PROBLEM: HeaderName = HeaderName::from_static("oncekey-problem");

/// How oncekey's own answers look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnAnswers {
    /// Their statuses and types.
    pub style: Style,
    /// Fixed fields that all of them carry, above all those of CORS (P4). One of a name that oncekey sets itself gives way.
    pub fields: HeaderMap,
}

/// A problem as a response (P, P1). `Retry-After` is added where a repetition of the same request makes sense in a while.
pub fn problem_response(problem: &Problem, own: &OwnAnswers, retry_after: Option<Duration>) -> Response<ResponseBody> {
    let mut answer = Response::new(ResponseBody::whole(Bytes::from(problem.body(&own.style))));
    *answer.status_mut() = own.style.status(problem.code);
    let headers = answer.headers_mut();
    headers.clone_from(&own.fields);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(problem.media_type(&own.style)));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(PROBLEM, HeaderValue::from_static(problem.code.as_str()));
    if let Some(id) = problem.operation_id {
        headers.insert(OPERATION_ID, ascii(id));
    }
    if let Some(retry_after) = retry_after.filter(|_| problem.passes) {
        headers.insert(RETRY_AFTER, seconds(retry_after));
    }
    answer
}

/// Whole seconds, rounded up: `Retry-After` knows no fractions, and 0 would invite a storm.
fn seconds(duration: Duration) -> HeaderValue {
    let rounded_up = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    HeaderValue::from(rounded_up.max(1))
}
