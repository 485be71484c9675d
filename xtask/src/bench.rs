//! `cargo xtask bench`: what oncekey costs, measured beside what one would have without it.
//!
//! Benchmarks run in release builds, this program included: it is the load, the proxy to compare with and the upstream.
//! `--quick` runs the same course on whatever is built, to see that it still runs; its numbers mean nothing.

mod gateway;
mod load;
pub(crate) mod plain;
mod report;

use std::path::PathBuf;
use std::process::Command;

use crate::{Result, workspace};

/// What `cargo xtask bench` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The benchmark to run; all, when none is named.
    name: Option<Name>,
    /// A short course in debug builds: shows that the benchmark works, and no numbers worth reading.
    #[arg(long)]
    quick: bool,
    /// Measure this program instead of building one.
    #[arg(long, value_name = "PATH")]
    gateway: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Name {
    /// Unguarded, first execution and replay, beside a plain proxy and the direct upstream.
    Gateway,
}

/// Runs a benchmark.
pub(crate) fn run(arguments: &Arguments) -> Result {
    let Name::Gateway = arguments.name.unwrap_or(Name::Gateway);
    if cfg!(debug_assertions) && !arguments.quick {
        let this = workspace::build("xtask", "xtask", true)?;
        return workspace::run(Command::new(this).args(std::env::args_os().skip(1)));
    }
    let gateway = match &arguments.gateway {
        Some(path) => path.clone(),
        None => workspace::build("oncekey-cli", "oncekey", !arguments.quick)?,
    };
    let course = if arguments.quick { &gateway::QUICK } else { &gateway::FULL };
    runtime()?.block_on(gateway::run(&gateway, course))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
