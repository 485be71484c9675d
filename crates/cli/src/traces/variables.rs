//! OpenTelemetry's environment variables, as far as the program reads them itself: whether spans are exported, and what of that isn't
//! in this version. All else (headers, sampling, batches, resource attributes) is read by OpenTelemetry's own code.

use std::time::Duration;

use crate::settings::Environment;

/// OpenTelemetry's own, for `OTEL_EXPORTER_OTLP_TIMEOUT`.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Variables that would change how the collector is trusted, and aren't followed.
const NOT_FOLLOWED: [&str; 6] = [
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_KEY",
    "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
];

/// How spans travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// `http/protobuf`.
    Http,
    /// `grpc`.
    Grpc,
}

/// What the environment asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) transport: Transport,
    /// Whether the collector is reached through TLS.
    pub(super) secure: bool,
    /// How long it may take to take a batch.
    pub(super) timeout: Duration,
    /// Whether the environment says what the program is called.
    pub(super) named: bool,
}

/// What is asked for; `None`: no spans are exported. They are if a collector is named, or `OTEL_TRACES_EXPORTER` is `otlp`.
pub(super) fn read(environment: &Environment) -> Result<Option<Wanted>, String> {
    let said = |name| Ok::<_, String>(environment.get(name)?.map(str::trim).filter(|value| !value.is_empty()));
    let of_traces = |name: &str| -> Result<_, String> {
        let (traces, all) = (format!("OTEL_EXPORTER_OTLP_TRACES_{name}"), format!("OTEL_EXPORTER_OTLP_{name}"));
        let value = environment.get(&traces)?.or(environment.get(&all)?);
        Ok(value.map(str::trim).filter(|value| !value.is_empty()))
    };
    let endpoint = of_traces("ENDPOINT")?;
    let disabled = said("OTEL_SDK_DISABLED")?.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    match said("OTEL_TRACES_EXPORTER")? {
        _ if disabled => return Ok(None),
        Some("none") => return Ok(None),
        None if endpoint.is_none() => return Ok(None),
        None | Some("otlp") => {}
        Some(_) => return Err(not_here("OTEL_TRACES_EXPORTER", "otlp, none")),
    }
    let transport = match of_traces("PROTOCOL")? {
        None | Some("http/protobuf") => Transport::Http,
        Some("grpc") => Transport::Grpc,
        Some(_) => return Err(not_here("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf, grpc")),
    };
    if said("OTEL_PROPAGATORS")?.is_some_and(|names| !names.split(',').any(|name| name.trim() == "tracecontext")) {
        return Err(not_here("OTEL_PROPAGATORS", "tracecontext"));
    }
    if let Some(name) = NOT_FOLLOWED.into_iter().find(|name| environment.has(name)) {
        return Err(format!("environment {name}: not in this version; the collector is trusted as the system says"));
    }
    let secure = endpoint.is_some_and(|url| url.starts_with("https:"));
    if transport == Transport::Grpc && secure {
        return Err(
            "environment OTEL_EXPORTER_OTLP_ENDPOINT: grpc through TLS is not in this version; use http/protobuf"
                .to_owned(),
        );
    }
    if endpoint.is_some_and(|url| url.contains('@')) {
        return Err(
            "environment OTEL_EXPORTER_OTLP_ENDPOINT: it can't hold credentials, since it is shown; they belong into \
                    OTEL_EXPORTER_OTLP_HEADERS"
                .to_owned(),
        );
    }
    let timeout = of_traces("TIMEOUT")?.and_then(|millis| millis.parse().ok()).map_or(TIMEOUT, Duration::from_millis);
    let attributes = said("OTEL_RESOURCE_ATTRIBUTES")?.unwrap_or_default();
    let named = said("OTEL_SERVICE_NAME")?.is_some()
        || attributes.split(',').any(|attribute| attribute.trim_start().starts_with("service.name="));
    Ok(Some(Wanted { transport, secure, timeout, named }))
}

fn not_here(variable: &str, allowed: &str) -> String {
    format!("environment {variable}: not in this version; allowed: {allowed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

    #[test]
    fn spans_are_exported_only_where_a_collector_is_named_or_meant() {
        let wanted = |environment| read(&environment).map(|wanted| wanted.is_some());
        assert_eq!(wanted(Environment::default()), Ok(false));
        assert_eq!(wanted(Environment::from([("OTEL_EXPORTER_OTLP_HEADERS", "a=b")])), Ok(false));
        assert_eq!(wanted(Environment::from([("OTEL_EXPORTER_OTLP_ENDPOINT", " ")])), Ok(false));
        assert_eq!(wanted(Environment::from([("OTEL_TRACES_EXPORTER", "otlp")])), Ok(true));
        assert_eq!(wanted(Environment::from([AT])), Ok(true));
        assert_eq!(wanted(Environment::from([AT, ("OTEL_TRACES_EXPORTER", "none")])), Ok(false));
        assert_eq!(wanted(Environment::from([AT, ("OTEL_SDK_DISABLED", "true")])), Ok(false));
    }

    #[test]
    fn what_is_said_of_traces_goes_before_what_is_said_of_all() {
        let environment = Environment::from([
            AT,
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://collector.example/v1/traces"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
            ("OTEL_SERVICE_NAME", "payments"),
        ]);
        let timeout = Duration::from_millis(1500);
        assert_eq!(
            read(&environment),
            Ok(Some(Wanted { transport: Transport::Http, secure: true, timeout, named: true }))
        );
    }

    #[test]
    fn what_is_not_in_this_version_is_refused() {
        for (name, value) in [
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_PROPAGATORS", "b3"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://me:secret@collector.example"),
        ] {
            let refused = read(&Environment::from([AT, (name, value)])).expect_err(name);
            assert!(refused.contains("OTEL_") && !refused.contains("secret"), "{refused}");
        }
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        let secure = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example");
        assert!(read(&Environment::from([grpc, secure])).is_err());
        assert!(read(&Environment::from([grpc, AT])).is_ok());
    }
}
