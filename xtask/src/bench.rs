//! `cargo xtask bench`: what oncekey costs, measured beside what one would have without it.
//!
//! Benchmarks run in release builds, this program included: it is the load, the proxy to compare with and the upstream.
//! `--quick` runs the same course on whatever is built, to see that it still runs; its numbers mean nothing.

mod gateway;
mod growth;
mod load;
mod memory;
pub(crate) mod naive;
pub(crate) mod plain;
mod postgres;
mod report;
mod transactions;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum as _;

use self::report::Outcome;
use crate::{Result, workspace};

/// What `cargo xtask bench` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The benchmark to run; all but `growth`, when none is named.
    name: Option<Name>,
    /// A short course in debug builds: shows that the benchmark works, and no numbers worth reading.
    #[arg(long)]
    quick: bool,
    /// How many records `growth` goes up to.
    #[arg(long, default_value_t = 10_000_000, value_name = "RECORDS")]
    up_to: u64,
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
    /// First execution and replay on PostgreSQL, beside two commits a request in the plain proxy and in pgbench.
    Postgres,
    /// Transactional mode on PostgreSQL and SQLite, beside the same handler without oncekey.
    Transactions,
    /// Claims, replays and sweeps on PostgreSQL, as its table grows. Takes long and much of the disk: only when named.
    Growth,
}

/// Runs a benchmark.
pub(crate) fn run(arguments: &Arguments) -> Result {
    if cfg!(debug_assertions) && !arguments.quick {
        let this = workspace::build("xtask", "xtask", true)?;
        return workspace::run(Command::new(this).args(std::env::args_os().skip(1)));
    }
    let usual = || Name::value_variants().iter().copied().filter(|name| !matches!(name, Name::Growth)).collect();
    let names: Vec<_> = arguments.name.map_or_else(usual, |name| vec![name]);
    let gateway = match &arguments.gateway {
        Some(path) => path.clone(),
        None if matches!(names[..], [Name::Transactions]) => PathBuf::new(),
        None => workspace::build("oncekey-cli", "oncekey", !arguments.quick)?,
    };
    let outcomes: Result<Vec<_>> = names.into_iter().map(|name| measure(name, &gateway, arguments)).collect();
    report::write(&outcomes?)
}

fn measure(name: Name, gateway: &Path, arguments: &Arguments) -> Result<Outcome> {
    let (runtime, quick) = (runtime()?, arguments.quick);
    match name {
        Name::Gateway => runtime.block_on(gateway::run(gateway, if quick { &gateway::QUICK } else { &gateway::FULL })),
        Name::Memory => runtime.block_on(memory::run(gateway, if quick { &memory::QUICK } else { &memory::FULL })),
        Name::Postgres => {
            runtime.block_on(postgres::run(gateway, if quick { &postgres::QUICK } else { &postgres::FULL }))
        }
        Name::Transactions => {
            let course = if quick { &transactions::QUICK } else { &transactions::FULL };
            runtime.block_on(transactions::run(course, !quick))
        }
        Name::Growth => {
            let course = if quick { growth::QUICK } else { growth::FULL.up_to(arguments.up_to) };
            runtime.block_on(growth::run(gateway, &course))
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
