//! The repository's own commands, the same for people and for CI: `cargo xtask test`, `tidy`, `bench`.
//!
//! This file only chooses. What a command does stands in the module of its name.

#![allow(clippy::print_stdout, reason = "a command's result goes to stdout; there is no log to write to")]

mod bench;
mod test;
mod tidy;
mod workspace;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;

/// What a command of the repository ends with: any error, to be shown as a sentence.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The repository's own commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Command {
    /// Set up what tests need, and run them all.
    Test {
        /// Run this step alone.
        #[arg(long, value_name = "NAME", value_parser = test::step_names())]
        only: Option<String>,
        /// Go on after a step that failed.
        #[arg(long)]
        keep_going: bool,
    },
    /// Check the layout rules: edges between crates, file sizes, words.
    Tidy,
    /// Run the benchmarks; results go to target/bench/.
    Bench(bench::Arguments),
    /// The reverse proxy that the gateway is compared with.
    #[command(hide = true)]
    PlainProxy {
        /// Where it passes everything on to.
        upstream: SocketAddr,
        /// The database in which it keeps keys, by two commits a request.
        #[arg(long, value_name = "URL")]
        naive: Option<String>,
    },
    /// The upstream of the benchmarks.
    #[command(hide = true)]
    PlainUpstream,
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Test { only, keep_going } => test::run(only.as_deref(), keep_going),
        Command::Tidy => tidy::run(),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::PlainProxy { upstream, naive: None } => bench::plain::proxy(upstream),
        Command::PlainProxy { upstream, naive: Some(store) } => bench::naive::proxy(upstream, &store),
        Command::PlainUpstream => bench::plain::upstream(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
