//! The program `oncekey`: reads the command line, starts logging and traces, runs the command, ends with its exit code.

mod arguments;
mod check;
mod check_config;
mod commands;
mod config;
mod demo;
mod drain;
mod exit;
mod explain;
mod fields;
mod front;
mod gateway;
mod jwt;
mod logging;
mod manual;
mod opening;
mod operator;
mod output;
mod probe;
mod scopes;
#[cfg(test)]
mod scripted;
mod settings;
mod tls;
mod traces;
mod upstream;

use std::process::ExitCode;
use std::time::Duration;

/// The system's allocator spends a tenth of a keyed request in consolidating what many small buffers left behind.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use arguments::Arguments;
use exit::{Exit, Failure};
use settings::Environment;
use traces::Traces;

/// How long a blocking read that nobody waits for any more may hold up the end.
const LAST_READS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => return told(&error).into(),
    };
    match run(arguments) {
        Ok(()) => Exit::Fine.into(),
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit().into()
        }
    }
}

/// `--help` and `--version` are answers; everything else that clap has to say is wrong usage.
fn told(error: &clap::Error) -> Exit {
    let wrong = error.use_stderr();
    // Nothing is left to say it on if this fails.
    let _ = error.print();
    if wrong { Exit::Usage } else { Exit::Fine }
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let environment = Environment::of_process();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("no threads to run on: {error}")))?;
    let traces = if arguments.command.serves() {
        Traces::start(&environment, runtime.handle()).map_err(Failure::usage)?
    } else {
        Traces::off()
    };
    logging::start(arguments.logging, &environment, &traces)?;
    let ended = runtime.block_on(commands::run(arguments, environment));
    traces.end();
    // What has to be done is done: a file that can't be read to its end doesn't hold up the process.
    runtime.shutdown_timeout(LAST_READS);
    ended
}
