//! The command line: its names, and nothing of what the commands do. Wrong usage exits 64.

mod records;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use records::{Change, OneRecord, RecordFilter, RecordsCommand, Selection, Trail, Verdict};

use crate::settings::{Environment, Flag, Purpose, Sources};

/// Makes HTTP APIs execute each operation once.
#[derive(Debug, Parser)]
#[command(name = "oncekey", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) logging: LoggingArguments,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How the program talks, on stderr.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Logs")]
pub(crate) struct LoggingArguments {
    /// How logs are written [default: text on a terminal, json otherwise]
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// What is logged; beats RUST_LOG [default: info]
    #[arg(long, global = true, value_enum, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// The least that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the gateway in front of an API
    Serve(ServeArguments),
    /// Show the whole thing on this machine: an orders API with the gateway in front of it
    Demo,
    /// Check a configuration and print the effective one, with where each value came from
    CheckConfig {
        /// The configuration file; without one, the environment and the built-in values are shown
        file: Option<PathBuf>,
    },
    /// Check a configuration against what it names: the store, the upstream, TLS, keys. Changes nothing
    ///
    /// Exit 0: `serve` would run. 64: something is wrong with the configuration or with what it names. 69: a needed service isn't
    /// there. 1: anything else.
    Check(CheckArguments),
    /// Show what the gateway makes of a request: its key, its scope, its canonical form, its fingerprint
    ///
    /// A request is read from a file in HTTP/1.1 form: the request line, header lines, an empty line, the body. Line ends may
    /// be LF alone, and Content-Length may be left out: the body is then the rest, without a line end at its very end.
    ///
    /// Of two requests it says what makes them differ; the second is compared as a retry of the first. Exit 0: the gateway
    /// would take the request, and the second for a retry of the first. Exit 1: it would refuse one, or the second is no retry.
    Explain(ExplainArguments),
    /// Create the store's schema or upgrade it
    Migrate(MigrateArguments),
    /// Look at records and put them right
    #[command(subcommand)]
    Records(RecordsCommand),
    /// Delete expired records now
    Sweep(SweepArguments),
    /// Count records and bytes
    Stats(ReportArguments),
    /// Print a shell's completions
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the main man page, or write one for each command
    Man {
        /// The folder to write them into, made if it isn't there
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

impl Command {
    /// Whether it answers requests.
    pub(crate) const fn serves(&self) -> bool {
        matches!(self, Self::Serve(_) | Self::Demo)
    }
}

/// What `serve` takes. The texts are judged together with the file and the environment.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArguments {
    /// The configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The API behind the gateway
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// What keeps the records
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// A fast store in front of it; not in this version
    #[arg(long, value_name = "URL", hide = true)]
    fast: Option<String>,
    /// Where health, metrics and the admin API listen
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Whose statuses problems have: default, ietf or stripe
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

impl ServeArguments {
    /// Where the settings of `serve` come from.
    pub(crate) fn sources(self, environment: Environment) -> Sources {
        let flags = [
            ("--listen", "listen", self.listen),
            ("--upstream", "upstream", self.upstream),
            ("--store", "store", self.store),
            ("--fast", "fast", self.fast),
            ("--admin", "admin.listen", self.admin),
            ("--profile", "profile", self.profile),
        ];
        Sources { file: self.config, flags: given(flags), environment, purpose: Purpose::Serve }
    }
}

/// What `check` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    serve: ServeArguments,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl CheckArguments {
    /// Where the settings come from: as for `serve`.
    pub(crate) fn sources(self, environment: Environment) -> Sources {
        self.serve.sources(environment)
    }
}

/// What `explain` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExplainArguments {
    /// A file with a request, `-` for stdin [default: stdin]; give it twice to compare two requests
    #[arg(long = "request", value_name = "FILE")]
    requests: Vec<PathBuf>,
    /// Read the request from stdin
    #[arg(value_name = "-", value_parser = ["-"], hide_possible_values = true, conflicts_with = "requests")]
    stdin: Option<String>,
    /// The configuration file (TOML) whose routes apply; without one, the built-in route
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl ExplainArguments {
    /// Where its settings come from.
    pub(crate) fn sources(&self, environment: Environment) -> Sources {
        Sources { file: self.config.clone(), flags: Vec::new(), environment, purpose: Purpose::Operate }
    }

    /// The files with the requests, one or two; `-` is stdin.
    pub(crate) fn requests(&self) -> Vec<PathBuf> {
        if self.requests.is_empty() { vec![PathBuf::from("-")] } else { self.requests.clone() }
    }

    /// Whether it can be done.
    fn check(&self) -> Result<(), &'static str> {
        match self.requests.as_slice() {
            [one, other] if one == other && one.as_os_str() == "-" => Err("only one request can come from stdin"),
            [_, _, _, ..] => Err("two requests can be compared, not more"),
            _ => Ok(()),
        }
    }
}

/// Which store a command works on. `ONCEKEY_STORE` names one too.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArguments {
    /// The store
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The configuration file that names it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl StoreArguments {
    /// Where the settings of a command on the whole store come from.
    pub(crate) fn sources(self, environment: Environment) -> Sources {
        self.within(None, environment)
    }

    /// Where the settings of a command on one namespace's records come from.
    fn within(self, namespace: Option<String>, environment: Environment) -> Sources {
        let flags = [("--store", "store", self.store), ("--namespace", "namespace", namespace)];
        Sources { file: self.config, flags: given(flags), environment, purpose: Purpose::Operate }
    }
}

fn given<const N: usize>(flags: [(&'static str, &'static str, Option<String>); N]) -> Vec<Flag> {
    let flag = |(name, setting, text): (_, _, Option<String>)| Some(Flag { name, setting, text: text? });
    flags.into_iter().filter_map(flag).collect()
}

/// What `migrate` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct MigrateArguments {
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// Print the statements that make the schema of a postgres:// store, and change nothing
    #[arg(long)]
    pub(crate) print_sql: bool,
}

/// What `sweep` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct SweepArguments {
    #[command(flatten)]
    pub(crate) report: ReportArguments,
    /// Why, for the trail of changes
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// A command that works on the store and reports figures.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportArguments {
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Arguments {
    /// Reads a command line. The error also stands for `--help` and `--version`; [`clap::Error::use_stderr`] tells them
    /// from wrong usage.
    pub(crate) fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let arguments = Self::try_parse_from(line)?;
        let wrong = |text| Self::command().error(ErrorKind::ArgumentConflict, text);
        match &arguments.command {
            Command::Records(records) => records.check().map_err(wrong)?,
            Command::Explain(explain) => explain.check().map_err(wrong)?,
            _ => {}
        }
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::load;

    fn read(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::read(line.split(' ').map(OsString::from))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_flag_of_serve_sets_a_setting() {
        let line = "oncekey serve --listen 127.0.0.1:1 --upstream http://h:2 --store memory: --admin 127.0.0.1:3 \
                    --profile stripe";
        let Command::Serve(serve) = read(line).expect("usage").command else { panic!("not serve") };
        let config = load(&serve.sources(Environment::default())).expect("right").config;
        assert_eq!(config.listen.to_string(), "127.0.0.1:1");
        assert_eq!(config.upstream.url.to_string(), "http://h:2");
        assert_eq!(config.store.url.to_string(), "memory:");
        assert_eq!(config.admin.listen.to_string(), "127.0.0.1:3");
        assert_eq!(config.own_answers.style.profile, oncekey_core::problem::Profile::Stripe);
    }

    #[test]
    fn a_flag_of_a_later_version_is_refused_by_its_name() {
        let Command::Serve(serve) = read("oncekey serve --fast redis://h").expect("usage").command else {
            panic!("not serve")
        };
        let refused = load(&serve.sources(Environment::default())).expect_err("not built");
        assert_eq!(refused.to_string(), "flag --fast: fast: not in this version");
    }

    #[test]
    fn the_commands_on_a_store_take_its_options() {
        for command in ["migrate", "sweep", "stats", "records list", "records purge --state unknown"] {
            assert!(read(&format!("oncekey {command} --store memory:")).is_ok(), "{command}");
            // The others work on the whole store, and say so instead of ignoring it.
            let named = read(&format!("oncekey {command} --store memory: --namespace pay"));
            assert_eq!(named.is_ok(), command.starts_with("records"), "{command}");
        }
    }
}
