//! Spans on their way to the collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter as Exports};
use tokio::runtime::Handle;

use super::variables::{Transport, Wanted};
use crate::tls;

/// What batches the spans of this program and exports them.
pub(super) fn provider(wanted: &Wanted, runtime: &Handle) -> Result<SdkTracerProvider, String> {
    // A client of HTTP/2 takes note of the runtime that it is made in.
    let _entered = runtime.enter();
    let exporter = match wanted.transport {
        Transport::Http => {
            let client = client(wanted)?;
            SpanExporter::builder().with_http().with_http_client(client).with_protocol(Protocol::HttpBinary).build()
        }
        Transport::Grpc => SpanExporter::builder().with_tonic().build(),
    };
    let exporter = exporter.map_err(|error| format!("environment OTEL_EXPORTER_OTLP_…: {error}"))?;
    let resource = Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    let resource = if wanted.named { resource } else { resource.with_service_name("oncekey") };
    Ok(SdkTracerProvider::builder()
        .with_resource(resource.build())
        .with_batch_exporter(OnRuntime::new(exporter, runtime.clone()))
        .build())
}

fn client(wanted: &Wanted) -> Result<reqwest::Client, String> {
    let failed = |error: &dyn std::error::Error| format!("no client for the collector of spans can be set up: {error}");
    let tls = tls::client_config(wanted.secure).map_err(|error| failed(&error))?;
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .timeout(wanted.timeout);
    client.build().map_err(|error| failed(&error))
}

/// Exports on the program's runtime what a thread without one has batched, and says so once when that begins to fail and once when it
/// works again.
#[derive(Debug)]
struct OnRuntime {
    exporter: Arc<SpanExporter>,
    runtime: Handle,
    failing: AtomicBool,
}

impl OnRuntime {
    fn new(exporter: SpanExporter, runtime: Handle) -> Self {
        Self { exporter: Arc::new(exporter), runtime, failing: AtomicBool::new(false) }
    }

    fn take_note(&self, exported: &OTelSdkResult) {
        match exported {
            Ok(()) if self.failing.swap(false, Ordering::Relaxed) => tracing::info!("spans are exported again"),
            Err(error) if !self.failing.swap(true, Ordering::Relaxed) => {
                tracing::warn!(%error, "spans can't be exported; those that don't fit into the queue are lost");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

impl Exports for OnRuntime {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exporter = Arc::clone(&self.exporter);
        let sent = self.runtime.spawn(async move { exporter.export(batch).await }).await;
        let sent = sent.unwrap_or_else(|ended| Err(OTelSdkError::InternalFailure(ended.to_string())));
        self.take_note(&sent);
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        if let Some(exporter) = Arc::get_mut(&mut self.exporter) {
            exporter.set_resource(resource);
        }
    }
}
