//! The span of each request, around all that answers it.

use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use oncekey_engine::SPAN_TARGET;
use oncekey_tower::{Replay, ResponseBody};
use tower::Service;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::context::{extract, linked};

/// A service, each request to which is a span. Where spans aren't exported it is the service itself.
#[derive(Clone, Debug)]
pub(crate) struct Traced<S>(pub(crate) S);

impl<S, B, E> Service<Request<B>> for Traced<S>
where
    S: Service<
            Request<B>,
            Response = Response<ResponseBody>,
            Error = E,
            Future = BoxFuture<'static, Result<Response<ResponseBody>, E>>,
        >,
    E: Send + 'static,
{
    type Response = S::Response;
    type Error = E;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), E>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let span = span(request.method());
        if span.is_disabled() {
            return self.0.call(request);
        }
        // Refused only where the span has begun already, which it hasn't.
        let _ = span.set_parent(extract(request.headers()));
        let answered = span.in_scope(|| self.0.call(request));
        let told = span.clone();
        let answered = async move {
            let mut answered = answered.await;
            tell(&told, &mut answered);
            answered
        };
        Box::pin(answered.instrument(span))
    }
}

/// What is in a request's path may be anyone's, so no span has it: the layer says which route it was, and how it ended (P2).
fn span(method: &Method) -> Span {
    const KNOWN: [Method; 9] = [
        Method::CONNECT,
        Method::DELETE,
        Method::GET,
        Method::HEAD,
        Method::OPTIONS,
        Method::PATCH,
        Method::POST,
        Method::PUT,
        Method::TRACE,
    ];
    let method = KNOWN.iter().find(|known| *known == method).map_or("_OTHER", Method::as_str);
    tracing::info_span!(
        target: SPAN_TARGET,
        "request",
        otel.name = method,
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.response.status_code = Empty,
        oncekey.route = Empty,
        oncekey.outcome = Empty,
        oncekey.operation_id = Empty,
    )
}

fn tell<E>(span: &Span, answered: &mut Result<Response<ResponseBody>, E>) {
    let Ok(answer) = answered else {
        span.record("otel.status_code", "ERROR");
        return;
    };
    span.record("http.response.status_code", answer.status().as_u16());
    if answer.status().is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    if let Some(replay) = answer.extensions_mut().remove::<Replay>()
        && let Some(execution) = replay.execution
    {
        replay.span.add_link(linked(execution));
    }
}
