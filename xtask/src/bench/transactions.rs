//! Transactional mode beside the same handler without oncekey: same table, same pool, one INSERT and its commit.
//!
//! The program is the example `transactions_bench` of the facade, started once for each way. On PostgreSQL a handler without
//! oncekey is measured twice: its INSERT alone, a round trip in all, and between BEGIN and COMMIT, as one writes it that has more than
//! one statement. Interleaved as all benchmarks are; ratios are taken within a round.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use oncekey_testkit::{PostgresServer, Process, Release, TempDir};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::gateway::start_plain;
use super::load::{Clients, Keys};
use super::plain::ORDER;
use super::postgres::SETTINGS;
use super::report::{Outcome, Sample, command_line, cpus, median};
use crate::{Result, workspace};

/// How long and how wide the benchmark is.
#[derive(Debug)]
pub(super) struct Course {
    rounds: usize,
    clients: usize,
    span: Duration,
    warm_up: Duration,
}

/// The course whose numbers count.
pub(super) const FULL: Course =
    Course { rounds: 7, clients: 32, span: Duration::from_secs(3), warm_up: Duration::from_millis(500) };

/// The course that shows that the benchmark runs.
pub(super) const QUICK: Course =
    Course { rounds: 3, clients: 32, span: Duration::from_secs(1), warm_up: Duration::from_millis(200) };

/// The aim: what a guarded handler has of an unguarded one's rate.
const AIM: &str = "≥ 70 %";

/// A program, and what was measured of it, once a round.
struct Target {
    database: &'static str,
    how: &'static str,
    name: &'static str,
    process: Process,
    address: SocketAddr,
    samples: Vec<Sample>,
}

/// How orders are inserted: in which database, by which name of the program's, and told how.
const WAYS: [(&str, &str, &str); 5] = [
    ("PostgreSQL", "statement", "one INSERT"),
    ("PostgreSQL", "transaction", "BEGIN, INSERT, COMMIT"),
    ("PostgreSQL", "guarded", "transactional mode, first execution"),
    ("SQLite", "statement", "one INSERT"),
    ("SQLite", "guarded", "transactional mode, first execution"),
];

/// Runs the benchmark.
pub(super) async fn run(course: &Course, release: bool) -> Result<Outcome> {
    let program = workspace::build_example("oncekey", "transactions_bench", &["postgres", "sqlite"], release)?;
    let server = spawn_blocking(|| PostgresServer::start_with(Release::V15, SETTINGS, &[])).await??;
    let database = server.database().await?;
    // Beside the results, on the disk that the repository is on.
    let folder = workspace::target("bench");
    std::fs::create_dir_all(&folder)?;
    let folder = TempDir::new_in(folder)?;
    let mut targets = Vec::new();
    for (kind, how, name) in WAYS {
        let store = match kind {
            "SQLite" => format!("sqlite:{}", folder.path().join(format!("{how}.db")).display()),
            _ => server.url(&database),
        };
        let mut command = Command::new(&program);
        let (process, address) =
            start_plain(command.args([how, &store]).arg(String::from_utf8_lossy(ORDER).as_ref())).await?;
        targets.push(Target { database: kind, how, name, process, address, samples: Vec::new() });
    }
    for round in 0..course.rounds {
        eprintln!("round {} of {}", round + 1, course.rounds);
        for place in 0..targets.len() {
            let number = (place + round) % targets.len();
            targets[number].measure(course, &format!("{round}-{number}")).await?;
        }
    }
    Ok(report(&targets, course))
}

impl Target {
    async fn measure(&mut self, course: &Course, name: &str) -> Result {
        let keys = Arc::new(Keys::fresh(name.to_owned()));
        let mut clients = Clients::connect(self.address, course.clients, false).await?;
        clients.drive(&keys, course.warm_up).await?;
        let before = self.process.cpu_time()?;
        let measured = clients.drive(&keys, course.span).await?;
        let cpu = self.process.cpu_time()?.saturating_sub(before);
        let sample = Sample::new(&measured, cpu).ok_or_else(|| format!("{}: nothing was measured", self.name))?;
        self.samples.push(sample);
        Ok(())
    }

    fn median(&self, field: fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(field))
    }
}

/// What the guarded handler of a database has of another's rate there.
fn share(targets: &[Target], of: &Target) -> f64 {
    let guarded = targets.iter().find(|target| target.database == of.database && target.how == "guarded");
    let samples = guarded.map_or(&[][..], |guarded| &guarded.samples);
    median(samples.iter().zip(&of.samples).map(|(guarded, of)| guarded.per_second / of.per_second))
}

fn report(targets: &[Target], course: &Course) -> Outcome {
    let mut text = format!(
        "`{}`: {} clients, PostgreSQL 15 with fsync and SQLite with `synchronous=FULL` on the same machine, {} CPUs shared by load, \
         handler and server. Medians of {} rounds of {} s, interleaved; ratios are taken within a round. Aim: transactional mode has \
         {AIM} of the rate without oncekey.{}\n\n\
         | database | handler | requests/s | transactional mode has of it | p50 ms | p99 ms | CPU µs/request |\n\
         |---|---|---:|---:|---:|---:|---:|\n",
        command_line(),
        course.clients,
        cpus(),
        course.rounds,
        course.span.as_secs_f64(),
        if cfg!(debug_assertions) { " **A debug build: these numbers mean nothing.**" } else { "" },
    );
    let mut results = Vec::new();
    for target in targets {
        let (share, per_second) = (share(targets, target), target.median(|it| it.per_second));
        let (p50, p99, cpu) = (target.median(|it| it.p50), target.median(|it| it.p99), target.median(|it| it.cpu));
        let _ = writeln!(
            text,
            "| {} | {} | {per_second:.0} | {:.0} % | {:.2} | {:.2} | {cpu:.1} |",
            target.database,
            target.name,
            share * 100.0,
            p50 / 1e3,
            p99 / 1e3,
        );
        results.push(json!({
            "database": target.database, "handler": target.name, "requests_per_second": per_second,
            "transactional_mode_has_of_it": share, "p50_us": p50, "p99_us": p99, "cpu_us_per_request": cpu,
        }));
    }
    Outcome {
        json: json!({ "benchmark": "transactions", "command": command_line(), "release_build": !cfg!(debug_assertions),
            "rounds": course.rounds, "clients": course.clients, "cpus": cpus(), "results": results }),
        markdown: text,
    }
}
