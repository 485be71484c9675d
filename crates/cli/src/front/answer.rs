//! One request on a connection: admitted, served, and answered so that the connection is clean or closes (H3).

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, EXPECT, HeaderValue};
use http::{Extensions, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use oncekey_engine::NotExecuted;
use oncekey_tower::{BodyError, ResponseBody};
use tower::{Service, ServiceExt};

use super::flow::{AnswerBody, Flow};
use super::line::{Line, Unread};
use super::refusal::Refusals;
use super::{ClientBody, Current, Serving, admission};

/// Most of an unread body that is read on for the connection's sake, in bytes; past it closing is cheaper.
const DRAINED: u64 = 64 * 1024;

/// How long that may hold the answer back.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// The one who answers the requests of a connection.
pub(super) struct Answering<S> {
    pub(super) current: Current<S>,
    /// What is known of the client.
    pub(super) known: Extensions,
    /// How long nothing may come of a request's body.
    pub(super) body_timeout: Duration,
    /// The field lines that a request may have.
    pub(super) max_headers: usize,
}

/// What the service made of a request.
struct Served {
    response: Response<ResponseBody>,
    has_body: bool,
    /// The body broke off or broke its framing.
    broken: bool,
    upgrade: Option<OnUpgrade>,
}

impl<S> Answering<S>
where
    S: Service<Request<ClientBody>, Response = Response<ResponseBody>> + Clone,
    S::Error: Into<BodyError>,
{
    /// Answers a request of HTTP/1.
    pub(super) async fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        line: Arc<Line>,
        flow: Arc<Flow>,
    ) -> Result<Response<AnswerBody>, Infallible> {
        let serving = self.current.get();
        let version = request.version();
        let give = |response: Response<ResponseBody>| Ok(response.map(|body| AnswerBody::new(body, Arc::clone(&flow))));
        if let Err(wrong) = admission::admit(&mut request) {
            line.linger();
            if let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() {
                line.keep_unused_upgrade(upgrade);
            }
            return give(finish(serving.refusals.request_invalid(wrong), version, true));
        }
        let awaits_continue = request.headers().contains_key(EXPECT);
        let head = request.method() == Method::HEAD;
        let Served { response, has_body, broken, upgrade } = self.serve(&serving, request, &line).await;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            line.become_tunnel();
            return give(response);
        }
        if let Some(upgrade) = upgrade {
            line.keep_unused_upgrade(upgrade);
        }
        let close = has_body && (broken || !settled(line.settle(), awaits_continue).await);
        if close {
            line.linger();
        }
        if version == Version::HTTP_10 && !head && response.body().size_hint().exact().is_none() {
            line.end_with_connection();
            return give(finish(response, version, true));
        }
        give(finish(response, version, close))
    }

    /// Answers a request of HTTP/2. What is left of its body needs no reading for the connection's sake: the stream is reset
    /// once the answer is given (H3). But clients (curl up to 7.88) take that reset for a failure if they still send, so
    /// what is short is read on.
    pub(super) async fn answer_stream(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        flow: Arc<Flow>,
    ) -> Result<Response<AnswerBody>, Infallible> {
        let serving = self.current.get();
        let response = match admission::admit_stream(&mut request, self.max_headers) {
            Ok(()) => {
                let line = Arc::new(Line::default());
                let awaits_continue = request.headers().contains_key(EXPECT);
                let served = self.serve(&serving, request, &line).await;
                settled(line.settle(), awaits_continue).await;
                served.response
            }
            Err(wrong) => serving.refusals.request_invalid(wrong),
        };
        let mut response = response.map(|body| AnswerBody::new(body, flow));
        *response.version_mut() = Version::HTTP_2;
        Ok(response)
    }

    async fn serve(&self, serving: &Serving<S>, request: Request<Incoming>, line: &Arc<Line>) -> Served {
        let safe = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(request.method());
        let on_stream = request.version() == Version::HTTP_2;
        let body = |incoming| ClientBody::new(incoming, line, self.body_timeout);
        let mut request = request.map(|incoming| if on_stream { body(incoming).on_stream() } else { body(incoming) });
        let has_body = !request.body().is_end_stream();
        let upgrade = request.extensions().get::<OnUpgrade>().cloned();
        request.extensions_mut().extend(self.known.clone());
        let served = serving.service.clone().oneshot(request).await;
        let broken = has_body && line.body_is_broken();
        let response = served.unwrap_or_else(|error| problem(&serving.refusals, &*error.into(), broken, safe));
        Served { response, has_body, broken, upgrade }
    }
}

/// Leaves the version to hyper, which knows the client's. `close` ends the connection after the answer: an answer in 1.0
/// does that by itself, and for a 1.0 client hyper would put `keep-alive` beside our `close`.
fn finish(mut response: Response<ResponseBody>, version: Version, close: bool) -> Response<ResponseBody> {
    *response.version_mut() = Version::HTTP_11;
    if close && version == Version::HTTP_10 {
        *response.version_mut() = Version::HTTP_10;
    } else if close {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Reads on what the service left of a body. False if the connection can't be used again.
async fn settled(unread: Option<Unread>, awaits_continue: bool) -> bool {
    let Some(Unread { mut body, begun }) = unread else { return true };
    // Reading would now send the 100 that the client waits for, and with it the body that nobody wants.
    if (awaits_continue && !begun) || body.size_hint().lower() > DRAINED {
        return false;
    }
    let rest = async {
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            read += frame.data_ref().map_or(0, |data| data.len() as u64);
            if read > DRAINED {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(DRAIN_TIME, rest).await.unwrap_or(false)
}

/// What an error of the service becomes. Only traffic that is not keyed comes here: the layer answers for keyed requests.
fn problem(
    refusals: &Refusals,
    error: &(dyn Error + 'static),
    body_broken: bool,
    safe: bool,
) -> Response<ResponseBody> {
    if body_broken {
        return refusals.body_incomplete();
    }
    let proven = NotExecuted::find(error).is_some();
    let causes: Vec<String> = causes(error).map(ToString::to_string).collect();
    tracing::debug!(error = causes.join(": "), proven, "no answer from the upstream");
    if proven || safe { refusals.upstream_unreachable() } else { refusals.outcome_unknown() }
}

/// An error, its cause, the cause of that, and so on.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
