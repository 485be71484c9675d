//! Logs on stderr: text on a terminal, JSON otherwise.

use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::arguments::{LogFormat, LogLevel, LoggingArguments};
use crate::exit::Failure;
use crate::settings::Environment;

/// Starts logging, once per process. `--log-level` beats `RUST_LOG` beats `info`; a `RUST_LOG` that can't be read is
/// wrong usage, since what it was meant to show would be missed.
pub(crate) fn start(arguments: LoggingArguments, environment: &Environment) -> Result<(), Failure> {
    let filter = filter(arguments.log_level, environment).map_err(Failure::usage)?;
    let terminal = stderr().is_terminal();
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).with_ansi(terminal);
    let text = match arguments.log_format {
        Some(format) => format == LogFormat::Text,
        None => terminal,
    };
    let started = if text { logs.try_init() } else { logs.json().flatten_event(true).try_init() };
    started.map_err(|error| Failure::failed(format_args!("logging can't start: {error}")))
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
    fn a_level_that_does_not_exist_is_refused() {
        let environment = Environment::from([("RUST_LOG", "oncekey=loud")]);
        assert!(filter(None, &environment).is_err());
    }
}
