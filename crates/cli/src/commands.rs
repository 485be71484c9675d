//! The commands, one function each: where the command line ends and the work begins.

use crate::arguments::{Arguments, Command, RecordsCommand};
use crate::check_config;
use crate::exit::Failure;
use crate::settings::{Environment, Loaded, Sources, load};

/// Runs the command that was asked for.
pub(crate) async fn run(arguments: Arguments, environment: Environment) -> Result<(), Failure> {
    match arguments.command {
        Command::Serve(arguments) => serve(loaded(&arguments.sources(environment.clone()))?, environment).await,
        Command::Demo => demo().await,
        Command::CheckConfig { file } => check_config::run(file, environment),
        Command::Migrate(store) => migrate(loaded(&store.sources(environment))?).await,
        Command::Records(command) => {
            let loaded = loaded(&command.store().clone().sources(environment))?;
            records(command, loaded).await
        }
        Command::Sweep(arguments) => sweep(loaded(&arguments.store.sources(environment))?, arguments.json).await,
        Command::Stats(arguments) => stats(loaded(&arguments.store.sources(environment))?, arguments.json).await,
    }
}

/// Reads the settings; a wrong configuration is exit 64.
fn loaded(sources: &Sources) -> Result<Loaded, Failure> {
    load(sources).map_err(Failure::usage)
}

/// The gateway. Whoever fills this logs `loaded.warnings` and reads the token by `loaded.admin_token(&environment)`.
async fn serve(loaded: Loaded, environment: Environment) -> Result<(), Failure> {
    loaded.admin_token(&environment).map_err(Failure::usage)?;
    not_wired("serve").await
}

async fn demo() -> Result<(), Failure> {
    not_wired("demo").await
}

async fn migrate(_loaded: Loaded) -> Result<(), Failure> {
    not_wired("migrate").await
}

async fn records(_command: RecordsCommand, _loaded: Loaded) -> Result<(), Failure> {
    not_wired("records").await
}

async fn sweep(_loaded: Loaded, _json: bool) -> Result<(), Failure> {
    not_wired("sweep").await
}

async fn stats(_loaded: Loaded, _json: bool) -> Result<(), Failure> {
    not_wired("stats").await
}

/// Stands in for a command whose parts are being put together.
async fn not_wired(command: &str) -> Result<(), Failure> {
    std::future::ready(Err(Failure::failed(format_args!("`{command}` is not wired yet")))).await
}
