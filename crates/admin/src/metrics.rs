//! The metrics recorder and `/metrics`. The values are counted where things happen, through the `metrics` facade.

use std::sync::Arc;

use axum::extract::State;
use http::header::CONTENT_TYPE;
use metrics::{describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use oncekey_core::PromiseClass;

use crate::options::Admin;

/// Makes a Prometheus recorder the process's own, with what each metric means. An error means that there is one already.
pub fn install_metrics() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new().install_recorder()?;
    describe_counter!(
        "oncekey_requests_total",
        "Requests by configured route and by what became of them; each counts under exactly one outcome."
    );
    describe_counter!("oncekey_problems_total", "Problems that oncekey answered, by configured route and code.");
    describe_gauge!("oncekey_build_info", "1, labelled with the version that runs.");
    describe_gauge!(
        "oncekey_config_last_reload_successful",
        "1 while the configuration in force is the one that was read last, 0 after a reload that was refused."
    );
    describe_gauge!("oncekey_promise_class", "1 for the lowest class of promise in force, 0 for the others.");
    describe_gauge!(
        "oncekey_promise_declared",
        "1 for each setting of the store that the class rests on though it was declared and not read."
    );
    Ok(handle)
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
