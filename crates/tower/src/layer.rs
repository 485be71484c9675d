//! The layer: finds the route, reads the request, asks the engine, answers.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use oncekey_core::fingerprint::decoding_room;
use oncekey_core::policy::{OnStoreError, Verdict};
use oncekey_core::problem::{Code, Problem};
use oncekey_core::response::{RecordedBody, retain};
use oncekey_core::{Fingerprint, Identity, Namespace, RecordId, RecordedResponse};
use oncekey_engine::{Call, Ended, Engine, Passed, Stopwatch, Unguarded, Work};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::{Layer, Service};

use crate::answer;
use crate::body::{BodyError, RequestBody, ResponseBody};
use crate::budget::Budget;
use crate::counts::{Counted, RouteCounts};
use crate::execute::Inner;
use crate::grpc;
use crate::intake::{self, Bounds};
use crate::keyed::{Looked, SentKey, look};
use crate::mismatches::Mismatches;
use crate::own_answers::problem_response;
use crate::passing;
use crate::reading;
use crate::request::{KeyedRequest, forwarded_key};
use crate::route::{Route, Routes};
use crate::spans::{Replay, RequestSpan};
use crate::trailers;

/// Guards a service's routes. Clones share the engine, the routes and the budget.
#[derive(Clone)]
pub struct IdempotencyLayer {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine<Response<ResponseBody>>,
    namespace: Namespace,
    routes: Routes,
    /// By the route's number.
    counts: Vec<RouteCounts>,
    unguarded: RouteCounts,
    mismatches: Mismatches,
    budget: Budget,
}

impl IdempotencyLayer {
    /// A layer over a running engine. Counters are registered here, so a metrics recorder should be installed before.
    pub fn new(engine: Engine<Response<ResponseBody>>, namespace: Namespace, routes: Routes, budget: Budget) -> Self {
        Self::noting(engine, namespace, routes, budget, Mismatches::default())
    }

    /// The same, and it notes there whose requests are mismatches.
    pub fn noting(
        engine: Engine<Response<ResponseBody>>,
        namespace: Namespace,
        routes: Routes,
        budget: Budget,
        mismatches: Mismatches,
    ) -> Self {
        let counts = routes.iter().map(|route| RouteCounts::of_route(&route.policy.route)).collect();
        let unguarded = RouteCounts::unguarded();
        Self { shared: Arc::new(Shared { engine, namespace, routes, counts, unguarded, mismatches, budget }) }
    }

    /// A layer with other routes on the same engine and budget. What this one has wrapped keeps its routes, so that a request
    /// is judged by one set of them from beginning to end; operations in flight are shared.
    #[must_use]
    pub fn with_routes(&self, routes: Routes) -> Self {
        let Shared { engine, namespace, budget, mismatches, .. } = &*self.shared;
        Self::noting(engine.clone(), namespace.clone(), routes, budget.clone(), mismatches.clone())
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        Idempotency { shared: Arc::clone(&self.shared), inner }
    }
}

/// A service whose routes are guarded.
#[derive(Clone)]
pub struct Idempotency<S> {
    shared: Arc<Shared>,
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Idempotency<S>
where
    S: Service<Request<RequestBody>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BodyError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BodyError>,
{
    type Response = Response<ResponseBody>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The service that was polled ready goes with the request; its clone stays for the next one.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let shared = Arc::clone(&self.shared);
        let span = RequestSpan::current();
        let Some(number) = shared.routes.find(request.method(), request.uri().path()) else {
            shared.unguarded.request(Counted::Unguarded, &span);
            return pass(inner, request);
        };
        let route = shared.routes.get(number);
        let (head, body) = request.into_parts();
        let looked = look(&head, &route.guard, &shared.namespace);
        let is_grpc = grpc::is_spoken(&head.headers);
        let request = Request::from_parts(head, body);
        match looked {
            Looked::NoKey => {
                shared.counts[number].request(Counted::NoKey, &span);
                pass(inner, request)
            }
            Looked::Refused(problem, sent) => {
                let refusal = Guarded { shared, number, is_grpc, span }.refuse(&problem, sent.as_ref());
                Box::pin(async move { Ok(refusal) })
            }
            Looked::Keyed { identity, sent } => {
                let guarded = Guarded { shared, number, is_grpc, span };
                // Readiness may be a place that others wait for, and a keyed request needs none before it executes, if it
                // does: it is given back here and asked for again then.
                let unready = inner.clone();
                drop(inner);
                Box::pin(async move { Ok(guarded.answer(unready, request, identity, sent).await) })
            }
        }
    }
}

/// Lets a request through untouched and unbuffered (K6, K7).
fn pass<S, B, R>(mut inner: S, request: Request<B>) -> BoxFuture<'static, Result<Response<ResponseBody>, S::Error>>
where
    S: Service<Request<RequestBody>, Response = Response<R>>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BodyError>,
{
    let body =
        |body: B| if body.is_end_stream() { RequestBody::whole(Bytes::new()) } else { RequestBody::streaming(body) };
    let response = inner.call(request.map(body));
    Box::pin(async move {
        let mut response = response.await?;
        // Only oncekey says that it let a request through which a route guards (D1).
        if response.headers().contains_key(passing::UNGUARDED) {
            retain(response.headers_mut(), |name| name != passing::UNGUARDED);
        }
        Ok(response.map(ResponseBody::streaming))
    })
}

/// A keyed request of a route, on its way.
struct Guarded {
    shared: Arc<Shared>,
    number: usize,
    is_grpc: bool,
    span: RequestSpan,
}

/// Counts a request once, also if its client leaves before it is answered and its future is dropped.
struct CountOnce<'a> {
    counts: &'a RouteCounts,
    span: &'a RequestSpan,
    outcome: Counted,
}

impl Drop for CountOnce<'_> {
    fn drop(&mut self) {
        self.counts.request(self.outcome, self.span);
    }
}

impl Guarded {
    fn route(&self) -> &Route {
        self.shared.routes.get(self.number)
    }

    fn counts(&self) -> &RouteCounts {
        &self.shared.counts[self.number]
    }

    async fn answer<S, B, R>(
        self,
        inner: S,
        request: Request<B>,
        identity: Identity,
        sent: SentKey,
    ) -> Response<ResponseBody>
    where
        S: Service<Request<RequestBody>, Response = Response<R>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BodyError>,
        B: Body<Data = Bytes> + Send + 'static,
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BodyError>,
    {
        let mut count = CountOnce { counts: self.counts(), span: &self.span, outcome: Counted::Rejected };
        let (head, body) = request.into_parts();
        let route = self.route();
        let patience = route.policy.timing.answer_timeout;
        let max = route.guard.max_request;
        let bounds = Bounds { max, decoding: decoding_room(&head.headers, max) };
        let (body, room) = match intake::read(body, bounds, self.shared.budget.requests(), patience).await {
            Ok(intake) => intake,
            Err(problem) => return self.problem(&problem, Some(&sent)),
        };
        if self.is_grpc
            && let Some(problem) = grpc::refuses(&body.bytes)
        {
            return self.problem(&problem, Some(&sent));
        }
        let began = Instant::now();
        let (waited, executed) = self.counts().stopwatches();
        let forwarded = forwarded_key(&route.guard.forward_key_as, &identity);
        let request = Arc::new(KeyedRequest { head, body, max_decoded: max, forwarded });
        let decoding = (bounds.decoding, room);
        let fingerprint = reading::fingerprint(&request, &route.guard.recipe, decoding, &self.shared.budget).await;
        let Ok(fingerprint) = fingerprint else {
            return self.problem(&Problem::decoded_too_large(max), Some(&sent));
        };
        count.outcome = Counted::InProgress;
        let announced = trailers::are_announced_to(&request.head);
        let (id, scope) = (identity.id(), identity.scope.clone());
        self.span.operation(id);
        let ended = self
            .shared
            .engine
            .run(Call { waited: Arc::clone(&waited), ..self.call(inner, request, identity, fingerprint, &executed) })
            .await;
        let (outcome, mut answer) = self.deliver(ended, &sent, id);
        count.outcome = outcome;
        if outcome == Counted::Mismatch {
            self.shared.mismatches.note(&scope);
        }
        if announced {
            trailers::announce(&mut answer);
        }
        self.counts().overhead(began.elapsed(), executed.spent(), waited.spent());
        answer
    }

    fn call<S, R>(
        &self,
        inner: S,
        request: Arc<KeyedRequest>,
        identity: Identity,
        fingerprint: Fingerprint,
        executed: &Arc<Stopwatch>,
    ) -> Call<Response<ResponseBody>>
    where
        S: Service<Request<RequestBody>, Response = Response<R>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BodyError>,
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BodyError>,
    {
        let Route { guard, policy, probe, transactions, .. } = self.route();
        let inner = Arc::new(Inner {
            service: Mutex::new(inner),
            key_header: guard.key_header.clone(),
            responses: self.shared.budget.responses().clone(),
        });
        let origin = request.origin(&policy.route);
        let again = Arc::clone(&request);
        let unguarded = (policy.on_store_error == OnStoreError::Open).then(|| {
            let (inner, request, timing) = (Arc::clone(&inner), Arc::clone(&request), policy.timing);
            let executed = Arc::clone(executed);
            let pass: Unguarded<_> = Arc::new(move || {
                Box::pin(Arc::clone(&executed).time(Arc::clone(&inner).pass(Arc::clone(&request), timing)))
            });
            pass
        });
        let executed = Arc::clone(executed);
        let work: Work<_> = Arc::new(move |attempt| {
            Box::pin(Arc::clone(&executed).time(Arc::clone(&inner).execute(Arc::clone(&request), attempt)))
        });
        Call {
            identity,
            fingerprint,
            refingerprint: Arc::new(move |recipe| {
                again.fingerprint(recipe).expect("its first fingerprint was made within the same bound")
            }),
            origin,
            policy: Arc::clone(policy),
            work,
            transactions: transactions.clone(),
            unguarded,
            probe: probe.clone(),
            waited: Arc::default(),
        }
    }

    /// What the client gets. The record's id is on all of it (P3): it follows from the key, and where the store said nothing
    /// there may be a record all the same.
    fn deliver(
        &self,
        ended: Ended<Response<ResponseBody>>,
        sent: &SentKey,
        id: RecordId,
    ) -> (Counted, Response<ResponseBody>) {
        let (outcome, problem) = match ended {
            Ended::Executed { mut first, verdict } => {
                answer::sign(first.headers_mut(), sent, id);
                return (executed(verdict), first);
            }
            Ended::Replayed { response, waited, repeatable } => {
                let outcome = if waited { Counted::Waited } else { Counted::Replayed };
                let replay = Replay::new(id, &self.route().policy.route, response.trace);
                let (outcome, mut answer) = match self.replay(&response, repeatable, sent, id) {
                    Ok(answer) => (outcome, answer),
                    Err(problem) => {
                        let outcome = match problem.code {
                            Code::Overloaded => Counted::Rejected,
                            Code::InProgress => Counted::InProgress,
                            _ => outcome,
                        };
                        (outcome, self.problem(&problem.about(id), Some(sent)))
                    }
                };
                replay.go_with(&mut answer);
                return (outcome, answer);
            }
            Ended::Unguarded(passed) => return (Counted::Unguarded, self.passed(passed, sent)),
            Ended::InProgress => (Counted::InProgress, Problem::new(Code::InProgress)),
            Ended::Mismatch => (Counted::Mismatch, Problem::new(Code::KeyReused)),
            Ended::Unknown { settles: true } => (Counted::Unknown, Problem::unknown_for_now()),
            Ended::Unknown { settles: false } => (Counted::Unknown, Problem::new(Code::OutcomeUnknown)),
            Ended::NotExecuted => (Counted::Failed, Problem::new(Code::UpstreamUnreachable)),
            Ended::Overloaded => (Counted::Rejected, Problem::new(Code::Overloaded)),
            Ended::QuotaExceeded => {
                return (Counted::Rejected, self.problem(&Problem::new(Code::QuotaExceeded), Some(sent)));
            }
            Ended::StoreUnavailable => (Counted::StoreError, Problem::new(Code::StoreUnavailable)),
            Ended::Unreadable => (Counted::StoreError, Problem::new(Code::RecordUnreadable)),
        };
        (outcome, self.problem(&problem.about(id), Some(sent)))
    }

    fn replay(
        &self,
        response: &RecordedResponse,
        repeatable: bool,
        sent: &SentKey,
        id: RecordId,
    ) -> Result<Response<ResponseBody>, Problem> {
        // Whoever waited for a streamed answer after which a retry may run has nothing to get but that retry (W4, E8).
        if response.body == RecordedBody::NotStored && repeatable {
            return Err(Problem::new(Code::InProgress));
        }
        answer::replay(response, self.shared.budget.responses(), sent, id)
    }

    /// The answer to a request that was let through without a claim (D1).
    fn passed(&self, passed: Passed<Response<ResponseBody>>, sent: &SentKey) -> Response<ResponseBody> {
        let mut answer = match passed {
            Passed::Answered(answer) => answer,
            Passed::NotExecuted(_) => self.problem(&passing::problem(false), None),
            Passed::Ambiguous(_) => self.problem(&passing::problem(true), None),
        };
        passing::mark(answer.headers_mut(), sent);
        answer
    }

    /// Turns a request away that has no record to speak of.
    fn refuse(&self, problem: &Problem, sent: Option<&SentKey>) -> Response<ResponseBody> {
        self.counts().request(Counted::Rejected, &self.span);
        self.problem(problem, sent)
    }

    fn problem(&self, problem: &Problem, sent: Option<&SentKey>) -> Response<ResponseBody> {
        self.counts().problem(problem.code);
        let Route { own_answers, policy, .. } = self.route();
        let retry_after = policy.timing.retry_after;
        let mut answer = if self.is_grpc {
            grpc::problem_response(problem, own_answers, retry_after)
        } else {
            problem_response(problem, own_answers, Some(retry_after))
        };
        if let Some(sent) = sent {
            answer.headers_mut().insert(sent.header.clone(), sent.value.clone());
        }
        answer
    }
}

const fn executed(verdict: Verdict) -> Counted {
    match verdict {
        Verdict::Completed | Verdict::Declined => Counted::Executed,
        Verdict::Failed => Counted::Failed,
        Verdict::Unknown => Counted::Unknown,
    }
}
