//! `cargo xtask bench`: what oncekey costs, measured beside what one would have without it.
//!
//! Benchmarks run in release builds, this program included: it is the load, the proxy to compare with and the upstream.
//! `--quick` runs the same course on whatever is built, to see that it still runs; its numbers mean nothing.

mod gateway;
mod load;
mod memory;
pub(crate) mod plain;
mod report;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum as _;

use self::report::Outcome;
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
    /// Memory after the start, and with ten thousand clients at once.
    Memory,
}

/// Runs a benchmark.
pub(crate) fn run(arguments: &Arguments) -> Result {
    if cfg!(debug_assertions) && !arguments.quick {
        let this = workspace::build("xtask", "xtask", true)?;
        return workspace::run(Command::new(this).args(std::env::args_os().skip(1)));
    }
    let gateway = match &arguments.gateway {
        Some(path) => path.clone(),
        None => workspace::build("oncekey-cli", "oncekey", !arguments.quick)?,
    };
    let names = arguments.name.map_or(Name::value_variants().to_vec(), |name| vec![name]);
    let outcomes: Result<Vec<_>> = names.into_iter().map(|name| measure(name, &gateway, arguments.quick)).collect();
    report::write(&outcomes?)
}

fn measure(name: Name, gateway: &Path, quick: bool) -> Result<Outcome> {
    let runtime = runtime()?;
    match name {
        Name::Gateway => runtime.block_on(gateway::run(gateway, if quick { &gateway::QUICK } else { &gateway::FULL })),
        Name::Memory => runtime.block_on(memory::run(gateway, if quick { &memory::QUICK } else { &memory::FULL })),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
