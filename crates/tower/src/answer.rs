//! Turning what the engine said into HTTP (W2, R1, R2, K8, P1, P3).

use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, Version, response};
use oncekey_core::problem::{Code, Problem, TYPE_BASE};
use oncekey_core::response::{RecordedBody, retain};
use oncekey_core::{RecordId, RecordedResponse};

use crate::body::ResponseBody;
use crate::budget::{NoRoom, Pool};
use crate::keyed::SentKey;

const PROBLEM: HeaderName = HeaderName::from_static("oncekey-problem");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
pub(crate) const OPERATION_ID: HeaderName = HeaderName::from_static("oncekey-operation-id");

const NO_ROOM: &str = "The operation is completed and its answer is kept, but there is no room to give it now; repeat the \
                       request as it is in a moment.";

/// Adds what every answer about a record carries: the key as the client sent it (K8), and the operation id (P3).
pub(crate) fn sign(headers: &mut HeaderMap, sent: &SentKey, id: RecordId) {
    headers.insert(sent.header.clone(), sent.value.clone());
    headers.insert(OPERATION_ID, ascii(id));
}

pub(crate) fn ascii(text: impl std::fmt::Display) -> HeaderValue {
    HeaderValue::try_from(text.to_string()).expect("ids and numbers are visible ASCII")
}

/// The first answer: all that goes on of the upstream's. The caller signs it: whoever gets it may have spelled the key
/// differently from whose request was executed (W4).
pub(crate) fn first(mut head: response::Parts, body: ResponseBody) -> Response<ResponseBody> {
    // The trailers of a keyed request's answer aren't delivered, and the server counts what is whole.
    retain(&mut head.headers, |name| *name != TRAILER && !(*name == CONTENT_LENGTH && body.is_whole()));
    head.version = Version::default(); // the upstream's is its own connection's
    Response::from_parts(head, body)
}

/// A replay of the recorded response, or the problem that stands for one that can't be given.
pub(crate) fn replay(
    recorded: &RecordedResponse,
    room: &Pool,
    sent: &SentKey,
    id: RecordId,
) -> Result<Response<ResponseBody>, Problem> {
    let body = match &recorded.body {
        RecordedBody::Stored(bytes) => bytes.clone(),
        RecordedBody::NotStored => {
            return Err(Problem::response_not_stored(recorded.status));
        }
    };
    // Waiting for room would keep the body in memory meanwhile, so there is either room now or none.
    let body = match room.try_give(&body) {
        Ok(Some(share)) => ResponseBody::budgeted(body, share),
        Ok(None) => ResponseBody::whole(body),
        Err(NoRoom) => return Err(Problem::because(Code::Overloaded, NO_ROOM)),
    };
    let mut answer = Response::new(body);
    *answer.status_mut() = recorded.status;
    *answer.headers_mut() = recorded.headers.clone();
    sign(answer.headers_mut(), sent, id);
    answer.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(answer)
}

/// A problem about a keyed request; it names the record if there is one.
pub(crate) fn problem(problem: &Problem, sent: Option<&SentKey>, retry_after: Duration) -> Response<ResponseBody> {
    let mut answer = problem_response(problem, Some(retry_after));
    if let Some(sent) = sent {
        answer.headers_mut().insert(sent.header.clone(), sent.value.clone());
    }
    answer
}

/// A problem as a response (P, P1). `Retry-After` is added where a repetition of the same request makes sense in a while.
pub fn problem_response(problem: &Problem, retry_after: Option<Duration>) -> Response<ResponseBody> {
    let mut answer = Response::new(ResponseBody::whole(Bytes::from(problem.body(TYPE_BASE))));
    *answer.status_mut() = problem.status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(problem.media_type()));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(PROBLEM, HeaderValue::from_static(problem.code.as_str()));
    if let Some(id) = problem.operation_id {
        headers.insert(OPERATION_ID, ascii(id));
    }
    let temporary = [Code::InProgress, Code::UpstreamUnreachable, Code::StoreUnavailable, Code::Overloaded];
    let temporary = temporary.contains(&problem.code);
    if let Some(retry_after) = retry_after.filter(|_| temporary) {
        headers.insert(RETRY_AFTER, seconds(retry_after));
    }
    answer
}

/// Whole seconds, rounded up: `Retry-After` knows no fractions, and 0 would invite a storm.
fn seconds(duration: Duration) -> HeaderValue {
    let rounded_up = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    HeaderValue::from(rounded_up.max(1))
}
