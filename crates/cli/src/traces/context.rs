//! W3C Trace Context: from a request's fields into its span, and from an execution's span into the fields that the upstream gets.

use http::{HeaderMap, HeaderName, HeaderValue};
use oncekey_core::TraceContext;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Where the client is in its trace; an empty context where it doesn't say, or says it wrongly.
pub(super) fn extract(headers: &HeaderMap) -> Context {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let parent = parents.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
    // Two parents are none.
    if parents.next().is_some() || parent.is_empty() {
        return Context::new();
    }
    let states: Vec<_> = headers.get_all(TRACESTATE).iter().filter_map(|value| value.to_str().ok()).collect();
    let fields = Fields { parent, state: states.join(",") };
    TraceContextPropagator::new().extract_with_context(&Context::new(), &fields)
}

struct Fields<'a> {
    parent: &'a str,
    state: String,
}

impl Extractor for Fields<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => Some(self.parent),
            "tracestate" => Some(&self.state),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

/// Replaces the trace context of a request that goes out by that of the present span. Does nothing where spans aren't exported: then the
/// client's own goes on.
pub(crate) fn inject(headers: &mut HeaderMap) {
    let Some(context) = present() else { return };
    headers.remove(TRACESTATE);
    TraceContextPropagator::new().inject_context(&context, &mut Outgoing(headers));
}

/// The present span, which is an execution's, for its record; `None` if it isn't exported.
pub(crate) fn execution() -> Option<TraceContext> {
    let context = present()?;
    let span = context.span().span_context().clone();
    let context = TraceContext::new(span.trace_id().to_bytes(), span.span_id().to_bytes())?;
    span.is_sampled().then_some(context)
}

fn present() -> Option<Context> {
    let span = Span::current();
    if span.is_none() {
        return None;
    }
    let context = span.context();
    context.span().span_context().is_valid().then_some(context)
}

struct Outgoing<'a>(&'a mut HeaderMap);

impl Injector for Outgoing<'_> {
    fn set(&mut self, key: &str, value: String) {
        let name = if key == "tracestate" { TRACESTATE } else { TRACEPARENT };
        if let Some(value) = HeaderValue::try_from(value).ok().filter(|value| !value.is_empty()) {
            self.0.insert(name, value);
        }
    }
}

/// What a link to an execution points at.
pub(super) fn linked(execution: TraceContext) -> SpanContext {
    let (trace, span) = (execution.trace_id(), execution.span_id());
    let (trace, span) = (TraceId::from_bytes(trace), SpanId::from_bytes(span));
    SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::NONE)
}
