//! The metrics recorder and `/metrics`. The values are counted where things happen, through the `metrics` facade.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use http::header::CONTENT_TYPE;
use metrics::{describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use oncekey_core::PromiseClass;
use tokio::time::sleep;

use crate::options::Admin;

/// What each counter means.
const COUNTERS: [(&str, &str); 7] = [
    (
        "oncekey_requests_total",
        "Requests by configured route and by what became of them; each counts under exactly one outcome.",
    ),
    ("oncekey_problems_total", "Problems that oncekey answered, by configured route and code."),
    ("oncekey_swept_total", "Expired records that this node deleted."),
    ("oncekey_lapsed_total", "Claims whose owner was gone, or whose time was over, that this node marked unknown."),
    ("oncekey_fenced_writes_total", "Outcomes that were refused because the record was someone else's by then."),
    ("oncekey_takeovers_total", "Unknown outcomes that were taken over and executed again."),
    ("oncekey_store_errors_total", "Calls of the store that failed, or were given up as too slow."),
];

/// What each gauge means.
const GAUGES: [(&str, &str); 13] = [
    ("oncekey_build_info", "1, labelled with the version that runs."),
    (
        "oncekey_config_last_reload_successful",
        "1 while the configuration in force is the one that was read last, 0 after a reload that was refused.",
    ),
    ("oncekey_promise_class", "1 for the lowest class of promise in force, 0 for the others."),
    (
        "oncekey_promise_declared",
        "1 for each setting of the store that the class rests on though it was declared and not read.",
    ),
    ("oncekey_store_up", "1 if the store took this node's last heartbeat, else 0."),
    ("oncekey_store_clock_ahead", "1 while the store's clock runs ahead and nothing expires, else 0."),
    ("oncekey_records", "Records in the store by state, those of all nodes; an estimate where there are many."),
    ("oncekey_store_bytes", "Bytes that the store takes."),
    ("oncekey_processing_oldest_seconds", "How long the oldest claim has been executing; 0 if none is."),
    (
        "oncekey_sweep_lag_seconds",
        "How long ago the oldest expired record expired that is still stored; 0 if there is none.",
    ),
    ("oncekey_async_backlog", "Accepted operations that wait to be executed."),
    ("oncekey_inflight", "Places taken among the operations that this node executes at once."),
    ("oncekey_waiters", "Requests on this node that wait for the execution of another."),
];

/// What each histogram means, and the upper bounds of its buckets in seconds.
const HISTOGRAMS: [(&str, &str, &[f64]); 4] = [
    (
        "oncekey_wait_seconds",
        "How long requests waited for an execution that wasn't theirs.",
        &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0],
    ),
    (
        "oncekey_execution_seconds",
        "How long executions took, until their answer was there or streamed.",
        &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0],
    ),
    (
        "oncekey_overhead_seconds",
        "What oncekey adds to a keyed request once it has arrived: neither executing nor waiting.",
        &[0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0],
    ),
    (
        "oncekey_store_seconds",
        "How long calls of the store took, failed ones included.",
        &[0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0],
    ),
];

/// How often what was timed is put into buckets. Between, each value takes some bytes.
const UPKEEP: Duration = Duration::from_secs(5);

/// Makes a Prometheus recorder the process's own, with what each metric means. An error means that there is one already.
/// [`keep_metrics`] must run with it.
pub fn install_metrics() -> Result<PrometheusHandle, BuildError> {
    let handle = recorder_builder()?.install_recorder()?;
    describe();
    Ok(handle)
}

fn recorder_builder() -> Result<PrometheusBuilder, BuildError> {
    HISTOGRAMS.iter().try_fold(PrometheusBuilder::new(), |builder, (name, _, buckets)| {
        builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets)
    })
}

fn describe() {
    for (name, meaning) in COUNTERS {
        describe_counter!(name, meaning);
    }
    for (name, meaning) in GAUGES {
        describe_gauge!(name, meaning);
    }
    for (name, meaning, _) in HISTOGRAMS {
        describe_histogram!(name, meaning);
    }
}

/// Keeps the recorder's memory bounded, whether or not anyone asks for its metrics. Never ends.
pub async fn keep_metrics(handle: PrometheusHandle) {
    loop {
        sleep(UPKEEP).await;
        handle.run_upkeep();
    }
}

/// Shows which version runs.
pub fn publish_build(version: &str) {
    gauge!("oncekey_build_info", "version" => version.to_owned()).set(1.0);
}

/// Shows whether the configuration that was read last is in force.
pub fn publish_reload(successful: bool) {
    gauge!("oncekey_config_last_reload_successful").set(if successful { 1.0 } else { 0.0 });
}

/// Shows the lowest class in force (G1); to be called again when it changes.
pub fn publish_class(lowest: PromiseClass) {
    for class in PromiseClass::ALL {
        gauge!("oncekey_promise_class", "class" => class.name()).set(if class == lowest { 1.0 } else { 0.0 });
    }
}

/// Shows whether the class rests on the declaration of a setting of the store (G4); to be called again when that changes.
pub fn publish_declared(setting: &'static str, rests_on_it: bool) {
    gauge!("oncekey_promise_declared", "setting" => setting).set(if rests_on_it { 1.0 } else { 0.0 });
}

/// `GET /metrics`, in Prometheus' text format.
pub(crate) async fn render(State(admin): State<Arc<Admin>>) -> ([(http::HeaderName, &'static str); 1], String) {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], admin.options.metrics.render())
}
