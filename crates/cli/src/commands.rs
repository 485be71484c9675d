//! The commands, one function each: where the command line ends and the work begins.

mod records;

use std::io::{BufRead, BufReader, IsTerminal as _};

use oncekey_admin::changes;
use oncekey_admin::resolution::checked_reason;
use oncekey_store::Operator;

use crate::arguments::{Arguments, Command, ExplainArguments, ReportArguments};
use crate::exit::Failure;
use crate::gateway::{self, Listeners};
use crate::operator::{self, Console};
use crate::settings::{Environment, Loaded, Sources, load};
use crate::{check, check_config, demo, explain, manual, opening, output};

/// Runs the command that was asked for.
pub(crate) async fn run(arguments: Arguments, environment: Environment) -> Result<(), Failure> {
    match arguments.command {
        Command::Serve(arguments) => serve(arguments.sources(environment)).await,
        Command::Demo => demo::run().await,
        Command::CheckConfig { file } => check_config::run(file, environment),
        Command::Check(arguments) => {
            let json = arguments.json;
            let sources = arguments.sources(environment);
            with_console(json, async |console| check::run(&sources, console).await).await
        }
        Command::Explain(arguments) => explain(&arguments, environment).await,
        Command::Migrate(arguments) => {
            migrate(loaded(&arguments.store.sources(environment))?, arguments.print_sql).await
        }
        Command::Records(command) => {
            let user = operator::user(&environment);
            let loaded = loaded(&command.sources(environment))?;
            records::run(command, loaded, user).await
        }
        Command::Sweep(arguments) => {
            let operator = signed(operator::user(&environment), arguments.reason)?;
            let ReportArguments { store, json } = arguments.report;
            sweep(loaded(&store.sources(environment))?, &operator, json).await
        }
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { out } => manual::pages(out.as_deref()),
        Command::Stats(arguments) => {
            let sources = arguments.store.sources(environment);
            stats(&loaded(&sources)?, sources.file.is_some(), arguments.json).await
        }
    }
}

/// Reads the settings; a wrong configuration is exit 64.
fn loaded(sources: &Sources) -> Result<Loaded, Failure> {
    load(sources).map_err(Failure::usage)
}

/// The gateway, until a signal ends it.
async fn serve(sources: Sources) -> Result<(), Failure> {
    let mut loaded = loaded(&sources)?;
    loaded.read_probe_fields(&sources.environment).map_err(Failure::usage)?;
    let tokens = loaded.admin_tokens(&sources.environment).map_err(Failure::usage)?;
    let (tls, doubts) = loaded.tls().map_err(|unusable| Failure::usage(unusable.refused))?;
    for warning in loaded.warnings.iter().chain(&doubts) {
        tracing::warn!("{warning}");
    }
    let listeners = Listeners::bind(&loaded.config).await?;
    gateway::run(loaded, Some(sources), tokens, tls, listeners).await
}

async fn migrate(loaded: Loaded, print_sql: bool) -> Result<(), Failure> {
    let config = &loaded.config.store;
    if print_sql {
        return output::print(&opening::migration_sql(config)?);
    }
    let (from, to) = opening::migrate(config).await?;
    if from == to {
        eprintln!("{}: schema version {to} is up to date", config.url);
    } else {
        eprintln!("{}: schema version {from} upgraded to {to}", config.url);
    }
    Ok(())
}

async fn explain(arguments: &ExplainArguments, environment: Environment) -> Result<(), Failure> {
    let loaded = loaded(&arguments.sources(environment))?;
    let files = arguments.requests();
    with_console(arguments.json, async |console| explain::run(&files, &loaded.config, console).await).await
}

/// Who changes something and why, for the trail.
fn signed(user: String, reason: Option<String>) -> Result<Operator, Failure> {
    let reason = checked_reason(reason).map_err(|error| Failure::usage(format_args!("--reason: {error}")))?;
    changes::operator(user, "cli", None, reason).map_err(Failure::failed)
}

async fn sweep(loaded: Loaded, operator: &Operator, json: bool) -> Result<(), Failure> {
    let store = opening::for_operator(&loaded.config.store).await?;
    with_console(json, async |console| operator::sweep(&*store, operator, console).await).await
}

/// Without a file nobody has said which routes the gateway has.
async fn stats(loaded: &Loaded, from_file: bool, json: bool) -> Result<(), Failure> {
    let store = opening::for_operator(&loaded.config.store).await?;
    let routes = if from_file { loaded.config.routes.as_slice() } else { &[] };
    with_console(json, async |console| operator::stats(&*store, routes, console).await).await
}

/// Runs an operator's command on the process's own standard streams.
async fn with_console(
    json: bool,
    command: impl AsyncFnOnce(&mut Console<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut answers = std::io::stdin().is_terminal().then(|| BufReader::new(std::io::stdin()));
    let mut console = Console {
        out: &mut std::io::stdout(),
        talk: &mut std::io::stderr(),
        answers: answers.as_mut().map(|answers| answers as &mut dyn BufRead),
        json,
    };
    command(&mut console).await
}
