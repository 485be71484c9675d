//! One execution by the inner service, and what its answer means.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, StreamBody};
use oncekey_core::policy::{Policy, Recording, Timing, Verdict};
use oncekey_core::response::{RecordedBody, RecordedResponse, end_to_end, strip_own};
use oncekey_core::{RecordId, TraceContext};
use oncekey_engine::{Attempt, Executed, NotExecuted};
use oncekey_store::Deferred;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tower::{Service, ServiceExt};

use crate::answer;
use crate::body::{BodyError, RequestBody, ResponseBody};
use crate::budget::{Pool, Share, UNCOUNTED};
use crate::gathered::Gathered;
use crate::grpc;
use crate::request::KeyedRequest;
use crate::stream::{Begun, stream};
use crate::trailers;

/// Before the end of an execution's time.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// The inner service as keyed requests use it. The mutex only makes it shareable; it is held while cloning.
pub(crate) struct Inner<S> {
    pub(crate) service: Mutex<S>,
    pub(crate) key_header: HeaderName,
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
        let (policy, id, in_transaction) = (Arc::clone(&attempt.policy), attempt.id, attempt.transaction.is_some());
        let give_up = Instant::now() + policy.timing.upstream_timeout;
        let mut service = self.service.lock().clone();
        if let Err(proof) = ready(&mut service, &policy.timing).await {
            return Executed::NotExecuted(proof);
        }
        // After the wait for the service, so that little is left between this check and the first byte (E10).
        if let Err(proof) = attempt.begin().await {
            return Executed::NotExecuted(proof);
        }
        let response = match service.call(request.build(attempt)).await {
            Ok(response) => response,
            Err(error) => return failed(&*error.into()),
        };
        let judged = Judged { id, policy, key_header: self.key_header.clone(), in_transaction };
        if let Some(deferred) = response.extensions().get::<Deferred>() {
            return self.defer(deferred, response.extensions().get().copied(), judged);
        }
        let (head, body) = response.into_parts();
        let arrived = Arrived::new(head, judged);
        if arrived.streams(&body) {
            return arrived.streaming(Begun::default(), body, give_up);
        }
        self.hold(arrived, body, give_up).await
    }

    /// Leaves the answer to be made in the transaction (G3). It is whole then, and its memory is taken already: it counts where
    /// there is room for it.
    fn defer(
        &self,
        deferred: &Deferred,
        trace: Option<TraceContext>,
        judged: Judged,
    ) -> Executed<Response<ResponseBody>> {
        if !judged.in_transaction {
            return Executed::Ambiguous("its handler left work for a transaction that it doesn't have".to_owned());
        }
        let Some(answering) = deferred.take() else {
            return Executed::Ambiguous("what its handler left to be done is gone".to_owned());
        };
        let responses = self.responses.clone();
        Executed::Deferred(Box::new(move |connection| {
            let (head, bytes) = answering(connection).into_parts();
            let share = responses.try_give(&bytes).unwrap_or_default();
            let arrived = Arrived::new(head, judged);
            let trace = arrived.trace.or(trace);
            Arrived { trace, ..arrived }.whole(bytes, HeaderMap::new(), share)
        }))
    }

    /// Reads an answer whole, unless it grows past what is recorded, or there is no room for it.
    async fn hold<R>(&self, arrived: Arrived, body: R, give_up: Instant) -> Executed<Response<ResponseBody>>
    where
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BodyError>,
    {
        let max = arrived.judged.policy.recording.max_response;
        let exact = body.size_hint().exact();
        let mut body = Box::pin(body.map_err(Into::into));
        let Ok(mut share) = self.room(exact.unwrap_or(0), give_up).await else {
            return arrived.streaming(Begun::default(), body, give_up);
        };
        let (mut held, mut after) = (Gathered::new(exact, max), HeaderMap::new());
        let until = arrived.held_until(give_up);
        loop {
            let next = match until {
                Some(until) => timeout_at(until, body.frame()).await,
                None => Ok(body.frame().await),
            };
            let frame = match next {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => break,
                // The rest is read for as long as that may take, and the outcome is known by now.
                Err(_) => {
                    let pieces = vec![Frame::data(held.into_bytes())];
                    return arrived.streaming(Begun { pieces, share }, body, give_up);
                }
                // What the upstream said of it itself stands, and the answer is delivered as it is: cut short (E11).
                Ok(Some(Err(error))) if arrived.is_settled() => {
                    let pieces = vec![Frame::data(held.into_bytes())];
                    let cut = StreamBody::new(futures_util::stream::iter([Err::<Frame<Bytes>, _>(error)]));
                    return arrived.streaming(Begun { pieces, share }, cut, give_up);
                }
                Ok(Some(Err(error))) => {
                    return Executed::Ambiguous(format!("its answer was cut short: {}", with_causes(&*error)));
                }
            };
            let frame = match frame.into_trailers() {
                Ok(trailers) => Frame::trailers(trailers::passed(&trailers, &arrived.judged.key_header)),
                Err(frame) => frame,
            };
            let more = frame.data_ref().map_or(0, Bytes::len) as u64 + frame.trailers_ref().map_or(0, trailers::len);
            let len = held.len() + trailers::len(&after) + more;
            if len > max || !self.has_room(&mut share, len, max, give_up).await {
                let pieces = vec![Frame::data(held.into_bytes()), frame];
                return arrived.streaming(Begun { pieces, share }, body, give_up);
            }
            match frame.into_data() {
                Ok(data) => held.push(&data),
                Err(frame) => after.extend(frame.into_trailers().into_iter().flatten()),
            }
        }
        let bytes = held.into_bytes();
        let share = share.map(|share| self.responses.give(&bytes, share));
        arrived.whole(bytes, after, share)
    }

    /// Whether there is room for `len` bytes. An answer of unannounced length takes room for the largest it can be, once it
    /// isn't small any more.
    async fn has_room(&self, share: &mut Option<Share>, len: u64, max: u64, give_up: Instant) -> bool {
        if share.is_none() && len > UNCOUNTED {
            match self.room(max, give_up).await {
                Ok(room) => *share = room,
                Err(NoRoom) => return false,
            }
        }
        true
    }

    /// Room for an answer, awaited for half of the time that is left. An answer without room is streamed and not kept
    /// (R5): giving it late would make its outcome unknown, and that is worse for its client than `response-not-stored`.
    async fn room(&self, bytes: u64, give_up: Instant) -> Result<Option<Share>, NoRoom> {
        let now = Instant::now();
        let until = now + give_up.saturating_duration_since(now) / 2;
        timeout_at(until, self.responses.take(bytes)).await.map_err(|_| NoRoom)
    }
}

/// No room came free in time.
struct NoRoom;

/// Waits for the service to take a request, for as long as a first client waits. A service that isn't ready hasn't been
/// called, so nothing was executed (E6).
pub(crate) async fn ready<S>(service: &mut S, timing: &Timing) -> Result<(), NotExecuted>
where
    S: Service<Request<RequestBody>>,
    S::Error: Into<BodyError>,
{
    match timeout(timing.answer_timeout, service.ready()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => {
            let error = error.into();
            let proof = NotExecuted::find(&*error).cloned();
            Err(proof.unwrap_or_else(|| NotExecuted::because(format!("the inner service isn't ready: {error}"))))
        }
        Err(_) => Err(NotExecuted::because("the inner service wasn't ready in time")),
    }
}

/// An answer's head, and what is needed to answer with it.
struct Arrived {
    /// Its fields are those that go on: end to end, and none of oncekey's own (R2, R3).
    head: response::Parts,
    /// What the upstream says itself that it means (E11).
    told: Option<Verdict>,
    /// Where in a trace it was executed, as the inner service says.
    trace: Option<TraceContext>,
    judged: Judged,
}

/// What an answer is judged by.
struct Judged {
    id: RecordId,
    policy: Arc<Policy>,
    key_header: HeaderName,
    in_transaction: bool,
}

impl Arrived {
    fn new(mut head: response::Parts, judged: Judged) -> Self {
        head.headers = end_to_end(&head.headers);
        let told = judged.policy.recording.told(&head.headers).unwrap_or_else(|error| {
            tracing::warn!(operation = %judged.id, %error, "the upstream's own verdict is ignored");
            None
        });
        strip_own(&mut head.headers, &judged.key_header);
        let trace = head.extensions.remove();
        Self { head, told, trace, judged }
    }

    /// Whether the answer is given as it arrives (R7), as far as its head tells.
    fn streams(&self, body: &impl Body) -> bool {
        let recording = &self.judged.policy.recording;
        recording.stream || body.size_hint().lower() > recording.max_response || self.is_event_stream()
    }

    fn is_event_stream(&self) -> bool {
        let media_type = self.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        media_type.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("text/event-stream"))
    }

    /// Whether the upstream has said how it ended, so that nothing that happens to the answer makes it unknown (E11).
    fn is_settled(&self) -> bool {
        self.told.is_some_and(|verdict| verdict != Verdict::Unknown)
    }

    /// When a settled outcome is recorded though its answer isn't whole: shortly before the time of the execution is over,
    /// after which nobody would ask any more what the upstream has said. `None`: it is unknown then.
    fn held_until(&self, give_up: Instant) -> Option<Instant> {
        let left = give_up.saturating_duration_since(Instant::now());
        self.is_settled().then(|| give_up - LAST_MOMENT.min(left / 10))
    }

    fn verdict(&self, trailers: Option<&HeaderMap>) -> Verdict {
        let Judged { policy, in_transaction, .. } = &self.judged;
        let recording = &policy.recording;
        let judged = |judge: &dyn Fn(StatusCode, bool) -> Verdict| {
            grpc::verdict(self.head.status, &self.head.headers, trailers, judge)
        };
        match (self.told, in_transaction) {
            (Some(told), false) => told,
            (Some(told), true) => judged(&|status, _| Recording::told_in_transaction(told, status)),
            (None, false) => judged(&|status, may_retry| recording.verdict(status, may_retry)),
            (None, true) => judged(&|status, _| recording.verdict_in_transaction(status)),
        }
    }

    fn recorded(&self, body: RecordedBody) -> RecordedResponse {
        let recorded = RecordedResponse::of(self.head.status, &self.head.headers, body, &self.judged.policy.recording);
        RecordedResponse { trace: self.trace, ..recorded }
    }

    fn whole(self, bytes: Bytes, trailers: HeaderMap, share: Option<Share>) -> Executed<Response<ResponseBody>> {
        // What is made in a transaction is whole from the start, however large (R5).
        let kept = bytes.len() as u64 <= self.judged.policy.recording.max_response;
        let recorded = if kept { RecordedBody::Stored(bytes.clone()) } else { RecordedBody::NotStored };
        let (verdict, response) = (self.verdict(Some(&trailers)), self.recorded(recorded));
        let response = response.with_trailers(&trailers, &self.judged.policy.recording);
        let body = match share {
            Some(share) => ResponseBody::budgeted(bytes, share),
            None => ResponseBody::whole(bytes),
        };
        Executed::Answered { first: answer::first(self.head, body.followed_by(trailers)), response, verdict }
    }

    fn streaming<R>(self, begun: Begun, body: R, give_up: Instant) -> Executed<Response<ResponseBody>>
    where
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BodyError>,
    {
        let (verdict, response) = (self.verdict(None), self.recorded(RecordedBody::NotStored));
        let (body, rest) = stream(begun, trailers::passing(body, self.judged.key_header), give_up);
        Executed::Streaming { first: answer::first(self.head, body), response, verdict, rest: Box::pin(rest) }
    }
}

/// An error of the inner service: ambiguous unless it proves that nothing ran (E6, E7).
fn failed<A>(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Executed<A> {
    match NotExecuted::find(error) {
        Some(proof) => Executed::NotExecuted(proof.clone()),
        None => Executed::Ambiguous(with_causes(error)),
    }
}

/// An error and its sources in one line, for the log.
pub(crate) fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
