//! Turning what the engine said into HTTP (R1, R2, K8, P3). What oncekey says itself is made in `own_answers`.

use http::header::{CONTENT_LENGTH, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, Version, response};
use oncekey_core::problem::{Code, Problem};
use oncekey_core::response::{RecordedBody, retain};
use oncekey_core::{RecordId, RecordedResponse};

use crate::body::ResponseBody;
use crate::budget::{NoRoom, Pool};
use crate::keyed::SentKey;

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
    // The server counts what is whole, and its trailers are announced as they are and to those who need it.
    retain(&mut head.headers, |name| !(body.is_whole() && (*name == TRAILER || *name == CONTENT_LENGTH)));
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
    let mut answer = Response::new(body.followed_by(recorded.trailers.clone()));
    *answer.status_mut() = recorded.status;
    *answer.headers_mut() = recorded.headers.clone();
    sign(answer.headers_mut(), sent, id);
    answer.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(answer)
}
