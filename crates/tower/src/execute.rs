//! One execution by the inner service: the request as it goes in, and what its answer means.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Request, Response, request};
use http_body::Body;
use http_body_util::BodyExt;
use oncekey_core::policy::{Policy, Verdict};
use oncekey_core::response::{RecordedBody, RecordedResponse, end_to_end, strip_own};
use oncekey_engine::{Attempt, Executed, NotExecuted};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::{Service, ServiceExt};

use crate::answer;
use crate::body::{BodyError, RequestBody, ResponseBody};
use crate::budget::{Pool, Share, UNCOUNTED};
use crate::intake::Intake;
use crate::keyed::SentKey;
use crate::stream::stream;

/// Fields that oncekey sets; the client's own lines of these names are removed (E11).
const OPERATION_ID: HeaderName = HeaderName::from_static("oncekey-operation-id");
const ATTEMPT: HeaderName = HeaderName::from_static("oncekey-attempt");

/// A keyed request, whole. Shared between its execution and its fingerprint.
pub(crate) struct KeyedRequest {
    pub(crate) head: request::Parts,
    pub(crate) body: Intake,
    pub(crate) sent: SentKey,
}

impl KeyedRequest {
    fn build(&self, attempt: Attempt) -> Request<RequestBody> {
        let mut head = self.head.clone();
        head.headers.insert(OPERATION_ID, number(attempt.id));
        head.headers.insert(ATTEMPT, number(attempt.number));
        head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity")); // R4
        head.extensions.insert(attempt);
        let bytes = self.body.bytes.clone();
        let body = match &self.body.share {
            Some(share) => RequestBody::budgeted(bytes, Arc::clone(share)),
            None => RequestBody::whole(bytes),
        };
        Request::from_parts(head, body)
    }
}

fn number(text: impl std::fmt::Display) -> HeaderValue {
    HeaderValue::try_from(text.to_string()).expect("ids and numbers are visible ASCII")
}

/// The inner service of a keyed request. The mutex only makes it shareable; it is held while cloning.
pub(crate) struct Inner<S> {
    pub(crate) service: Mutex<S>,
    pub(crate) responses: Pool,
}

impl<S> Inner<S> {
    /// Executes a request once.
    pub(crate) async fn execute<R>(
        self: Arc<Self>,
        request: Arc<KeyedRequest>,
        attempt: Attempt,
    ) -> Executed<Response<ResponseBody>>
    where
        S: Service<Request<RequestBody>, Response = Response<R>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BodyError>,
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BodyError>,
    {
        let policy = Arc::clone(&attempt.policy);
        let give_up = Instant::now() + policy.timing.upstream_timeout;
        let id = attempt.id;
        let service = self.service.lock().clone();
        if let Err(proof) = attempt.begin().await {
            return Executed::NotExecuted(proof);
        }
        let response = match service.oneshot(request.build(attempt)).await {
            Ok(response) => response,
            Err(error) => return failed(&*error.into()),
        };
        let (head, body) = response.into_parts();
        let arrived = Arrived { head, sent: request.sent.clone(), id, policy };
        drop(request); // its body isn't needed any more
        if arrived.streams(&body) {
            return arrived.streaming(Vec::new(), body, give_up);
        }
        self.hold(arrived, body, give_up).await
    }

    /// Reads an answer whole, unless it grows past what is recorded.
    async fn hold<R>(&self, arrived: Arrived, body: R, give_up: Instant) -> Executed<Response<ResponseBody>>
    where
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BodyError>,
    {
        let max = arrived.policy.recording.max_response;
        let share = self.responses.take(body.size_hint().exact().unwrap_or(0)).await;
        let mut body = Box::pin(body.map_err(Into::into));
        let mut held = Held { pieces: Vec::new(), bytes: 0, share };
        while let Some(frame) = body.frame().await {
            let data = match frame {
                Ok(frame) => frame.into_data(),
                Err(error) => return Executed::Ambiguous(format!("its answer was cut short: {error}")),
            };
            // Trailers of a held answer are neither recorded nor delivered.
            let Ok(data) = data else { continue };
            held.bytes += data.len() as u64;
            held.pieces.push(data);
            if held.bytes > max {
                return arrived.streaming(held.pieces, body, give_up);
            }
            // An answer of unannounced length takes room for the largest it can be, once it isn't small any more.
            if held.share.is_none() && held.bytes > UNCOUNTED {
                held.share = self.responses.take(max).await;
            }
        }
        arrived.whole(held)
    }
}

/// The part of an answer that was read.
struct Held {
    pieces: Vec<Bytes>,
    bytes: u64,
    share: Option<Share>,
}

/// An answer's head, and what is needed to answer with it.
struct Arrived {
    head: http::response::Parts,
    sent: SentKey,
    id: oncekey_core::RecordId,
    policy: Arc<Policy>,
}

impl Arrived {
    /// Whether the answer is given as it arrives (R7), as far as its head tells.
    fn streams(&self, body: &impl Body) -> bool {
        let recording = &self.policy.recording;
        recording.stream || body.size_hint().lower() > recording.max_response || self.is_event_stream()
    }

    fn is_event_stream(&self) -> bool {
        let media_type = self.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        media_type.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("text/event-stream"))
    }

    fn verdict(&self) -> Verdict {
        self.policy.recording.verdict(self.head.status, self.head.headers.contains_key(RETRY_AFTER))
    }

    fn recorded(&self, body: RecordedBody) -> RecordedResponse {
        let mut headers = end_to_end(&self.head.headers);
        strip_own(&mut headers, &self.sent.header);
        RecordedResponse::of(self.head.status, &headers, body, &self.policy.recording)
    }

    fn whole(self, held: Held) -> Executed<Response<ResponseBody>> {
        let bytes = joined(held.pieces);
        let (verdict, response) = (self.verdict(), self.recorded(RecordedBody::Stored(bytes.clone())));
        let body = match held.share {
            Some(share) => ResponseBody::budgeted(bytes, share),
            None => ResponseBody::whole(bytes),
        };
        Executed::Answered { first: answer::first(self.head, body, &self.sent, self.id), response, verdict }
    }

    fn streaming<R>(self, read: Vec<Bytes>, body: R, give_up: Instant) -> Executed<Response<ResponseBody>>
    where
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BodyError>,
    {
        let (verdict, response) = (self.verdict(), self.recorded(RecordedBody::NotStored));
        let (body, rest) = stream(read, body, give_up);
        let first = answer::first(self.head, body, &self.sent, self.id);
        Executed::Streaming { first, response, verdict, rest: Box::pin(rest) }
    }
}

/// One piece of memory of just the right size: a piece as it was read may keep a whole read buffer alive.
fn joined(pieces: Vec<Bytes>) -> Bytes {
    let mut all = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    for piece in pieces {
        all.extend_from_slice(&piece);
    }
    all.freeze()
}

/// An error of the inner service: ambiguous unless it proves that nothing ran (E6, E7).
fn failed<A>(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Executed<A> {
    match NotExecuted::find(error) {
        Some(proof) => Executed::NotExecuted(proof.clone()),
        None => Executed::Ambiguous(error.to_string()),
    }
}
