//! Traces: the `tracing` spans of the program and its libraries, exported as OpenTelemetry's (OTLP), and the W3C trace context that
//! comes in with a request and goes out with its execution.
//!
//! Off unless OpenTelemetry's own environment variables name a collector; then a span costs an atomic load, and trace context passes
//! through as any field does. On, a span that ends is put into a bounded queue, or dropped where that is full; everything else is
//! done by a thread of its own, so that a collector that hangs or is away slows and fails no request.

mod context;
mod exporter;
mod request;
mod variables;

use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

pub(crate) use context::{execution, inject};
pub(crate) use request::Traced;

use crate::settings::Environment;

/// How long the end of the program waits for the last spans to be taken.
const LAST_SPANS: Duration = Duration::from_secs(5);

/// The spans' way out of the program, if there is one.
pub(crate) struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// None.
    pub(crate) const fn off() -> Self {
        Self(None)
    }

    /// As the environment says; what can't be done as it says is wrong usage. `runtime` sends the spans. Nothing is sent before spans
    /// have ended, so nobody has to be there yet.
    pub(crate) fn start(environment: &Environment, runtime: &Handle) -> Result<Self, String> {
        let Some(wanted) = variables::read(environment)? else { return Ok(Self::off()) };
        exporter::provider(&wanted, runtime).map(|provider| Self(Some(provider)))
    }

    /// What takes the spans from the program; of all else that it says, nothing.
    pub(crate) fn layer<S>(&self) -> Option<impl Layer<S> + Send + Sync + use<S>>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let tracer = self.0.as_ref()?.tracer("oncekey");
        let layer = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            // Spans tell what they say, and not where in the code, on which thread, or in how many steps they said it.
            .with_location(false)
            .with_threads(false)
            .with_level(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        Some(layer.with_filter(filter_fn(is_span)))
    }

    /// Sends what has not been sent yet, within a bounded time. Blocking; the runtime must still run.
    pub(crate) fn end(self) {
        if let Some(provider) = self.0
            && provider.shutdown_with_timeout(LAST_SPANS).is_err()
        {
            tracing::warn!("the last spans could not be exported in time");
        }
    }
}

/// Whether this is one of oncekey's spans.
pub(crate) fn is_span(metadata: &Metadata<'_>) -> bool {
    metadata.target() == oncekey_engine::SPAN_TARGET
}
