//! Logs on stderr: text on a terminal, JSON otherwise.

use std::io::{IsTerminal as _, stderr};

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, filter_fn};
use tracing_subscriber::layer::{Filter, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::arguments::{LogFormat, LogLevel, LoggingArguments};
use crate::exit::Failure;
use crate::settings::Environment;
use crate::traces::{self, Traces};

/// Starts logging, once per process. `--log-level` beats `RUST_LOG` beats `info`; a `RUST_LOG` that can't be read is
/// wrong usage, since what it was meant to show would be missed. Spans are no part of the logs; where they go, `traces` says.
pub(crate) fn start(arguments: LoggingArguments, environment: &Environment, traces: &Traces) -> Result<(), Failure> {
    let filter = filter(arguments.log_level, environment).map_err(Failure::usage)?;
    let terminal = stderr().is_terminal();
    let logs = tracing_subscriber::fmt::layer().with_writer(stderr).with_ansi(terminal);
    let text = match arguments.log_format {
        Some(format) => format == LogFormat::Text,
        None => terminal,
    };
    let logs = if text { logs.boxed() } else { logs.json().flatten_event(true).boxed() };
    let started = tracing_subscriber::registry().with(logs.with_filter(fit_for_logs(filter))).with(traces.layer());
    started.try_init().map_err(|error| Failure::failed(format_args!("logging can't start: {error}")))
}

/// What may be logged of that. What other libraries say at `debug` and `trace` is about what they work on, such as the parameters of
/// statements or the bytes of a message; which of it holds a key, a scope or a body is up to each of their releases, and no line at any
/// level may (P2).
fn fit_for_logs<S: Subscriber>(filter: EnvFilter) -> impl Filter<S> {
    let most = filter.max_level_hint();
    let fit = filter_fn(|said: &Metadata<'_>| {
        let is_own = said.target().starts_with("oncekey");
        !traces::is_span(said) && (is_own || *said.level() <= Level::INFO)
    });
    filter.and(if let Some(most) = most { fit.with_max_level_hint(most) } else { fit })
}

fn filter(level: Option<LogLevel>, environment: &Environment) -> Result<EnvFilter, String> {
    if let Some(level) = level {
        return Ok(EnvFilter::default().add_directive(level_filter(level).into()));
    }
    match environment.get("RUST_LOG")? {
        None | Some("") => Ok(EnvFilter::default().add_directive(LevelFilter::INFO.into())),
        Some(directives) => {
            let wrong = |error| {
                format!("environment RUST_LOG: {error}; allowed: off, error, warn, info, debug, trace, or TARGET=LEVEL")
            };
            EnvFilter::builder().parse(directives).map_err(wrong)
        }
    }
}

const fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[test]
    fn the_flag_beats_rust_log_and_both_beat_info() {
        let environment = Environment::from([("RUST_LOG", "oncekey=debug")]);
        let shown = |level, environment: &Environment| filter(level, environment).map(|filter| filter.to_string());
        assert_eq!(shown(None, &Environment::default()), Ok("info".to_owned()));
        assert_eq!(shown(None, &environment), Ok("oncekey=debug".to_owned()));
        assert_eq!(shown(Some(LogLevel::Warn), &environment), Ok("warn".to_owned()));
    }

    #[test]
    fn what_other_libraries_say_at_debug_is_not_logged_whatever_is_asked_for() {
        let said = Said::default();
        let environment = Environment::from([("RUST_LOG", "trace")]);
        let filter = fit_for_logs(filter(None, &environment).expect("a level"));
        let logs = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(said.clone()).with_filter(filter);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(logs), || {
            tracing::debug!(target: "tokio_postgres::query", "executing with parameters: canary");
            tracing::trace!(target: "h2::codec", "canary");
            let _span = tracing::info_span!(target: oncekey_engine::SPAN_TARGET, "canary").entered();
            tracing::info!(target: "h2", "a library's own");
            tracing::trace!(target: "oncekey_engine::lead", "ours");
        });
        let said = String::from_utf8(said.0.lock().clone()).expect("text");
        assert!(said.contains("a library's own") && said.contains("ours"), "{said}");
        assert!(!said.contains("canary"), "{said}");
    }

    /// What was logged.
    #[derive(Clone, Default)]
    struct Said(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Said {
        fn write(&mut self, said: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(said);
            Ok(said.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Said {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn a_level_that_does_not_exist_is_refused() {
        let environment = Environment::from([("RUST_LOG", "oncekey=loud")]);
        assert!(filter(None, &environment).is_err());
    }
}
