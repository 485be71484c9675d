//! What the layer tells about a request in `tracing` spans, and what it passes on of a replay's. The engine's own are its own.
//!
//! A program that has a span for each request declares the fields `oncekey.route`, `oncekey.outcome` and `oncekey.operation_id` on it
//! (as `tracing::field::Empty`); the layer, called within that span, fills them in. The route is the configured one, the outcome is
//! that of `oncekey_requests_total`.

use http::Response;
use oncekey_core::{RecordId, TraceContext};
use oncekey_engine::SPAN_TARGET;
use tracing::Span;

use crate::body::ResponseBody;

/// A replay, in the extensions of the answer that gives it, as long as its span is wanted by some subscriber.
///
/// The two are a pair for whoever exports spans, and who alone knows how to link them: in the record of a traced execution there
/// is its [`TraceContext`], if the inner service put one into the extensions of its answer.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The span `replay`. It ends when this is dropped.
    pub span: Span,
    /// The span of the execution whose answer is replayed, where its record names one.
    pub execution: Option<TraceContext>,
}

impl Replay {
    /// Begins the span of a replay.
    pub(crate) fn new(id: RecordId, route: &str, execution: Option<TraceContext>) -> Self {
        let span = tracing::info_span!(
            target: SPAN_TARGET,
            "replay",
            oncekey.operation_id = %id,
            oncekey.route = route,
        );
        Self { span, execution }
    }

    /// Goes with the answer that it led to.
    pub(crate) fn go_with(self, answer: &mut Response<ResponseBody>) {
        if !self.span.is_disabled() {
            answer.extensions_mut().insert(self);
        }
    }
}

/// The span of a request, which is the program's.
pub(crate) struct RequestSpan(Span);

impl RequestSpan {
    /// The one in which the layer is called.
    pub(crate) fn current() -> Self {
        Self(Span::current())
    }

    pub(crate) fn operation(&self, id: RecordId) {
        self.0.record("oncekey.operation_id", tracing::field::display(id));
    }

    pub(crate) fn ended(&self, route: &str, outcome: &'static str) {
        self.0.record("oncekey.route", route);
        self.0.record("oncekey.outcome", outcome);
    }
}
