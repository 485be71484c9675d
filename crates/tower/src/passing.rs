//! Letting a keyed request through without a claim when the store can't be reached (`on_store_error = "open"`, D1).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use oncekey_core::policy::Timing;
use oncekey_core::problem::{Code, Problem};
use oncekey_core::response::{end_to_end, strip_own};
use oncekey_engine::{NotExecuted, Passed};
use tower::Service;

use crate::answer;
use crate::body::{BodyError, RequestBody, ResponseBody};
use crate::execute::{Inner, ready, with_causes};
use crate::keyed::SentKey;
use crate::request::KeyedRequest;
use crate::trailers;

/// Says on an answer that its request was let through, and why.
pub(crate) const UNGUARDED: HeaderName = HeaderName::from_static("oncekey-unguarded");

impl<S> Inner<S> {
    /// Sends a request once and gives its answer as it arrives.
    pub(crate) async fn pass<R>(
        self: Arc<Self>,
        request: Arc<KeyedRequest>,
        timing: Timing,
    ) -> Passed<Response<ResponseBody>>
    where
        S: Service<Request<RequestBody>, Response = Response<R>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BodyError>,
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BodyError>,
    {
        let mut service = self.service.lock().clone();
        if let Err(proof) = ready(&mut service, &timing).await {
            return Passed::NotExecuted(proof);
        }
        let response = match service.call(request.unguarded()).await {
            Ok(response) => response,
            Err(error) => {
                let error = error.into();
                return match NotExecuted::find(&*error) {
                    Some(proof) => Passed::NotExecuted(proof.clone()),
                    None => Passed::Ambiguous(with_causes(&*error)),
                };
            }
        };
        let (mut head, body) = response.into_parts();
        head.headers = end_to_end(&head.headers);
        strip_own(&mut head.headers, &self.key_header);
        let body = trailers::passing(body, self.key_header.clone());
        Passed::Answered(answer::first(head, ResponseBody::streaming(body)))
    }
}

/// The problem that stands for an answer that isn't there. There is no record to name (P3).
pub(crate) fn problem(executed: bool) -> Problem {
    if executed {
        let detail = "This request may have taken effect, and no record tells of it, since the store could not be \
                      reached: look whether it did before you repeat it.";
        Problem::because(Code::OutcomeUnknown, detail)
    } else {
        Problem::new(Code::UpstreamUnreachable)
    }
}

/// Marks an answer (D1), which carries the key back as any other does (K8).
pub(crate) fn mark(headers: &mut HeaderMap, sent: &SentKey) {
    headers.insert(sent.header.clone(), sent.value.clone());
    headers.insert(UNGUARDED, HeaderValue::from_static("store-unavailable"));
}
