//! The gateway on PostgreSQL, beside the plain proxy, the plain proxy with a naive protocol of two commits, and pgbench making the
//! same two commits with nothing around them.
//!
//! One run, interleaved as the gateway's own benchmark is; the server has `fsync` on and its cluster in the temporary directory.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use oncekey_testkit::{PostgresServer, Process, Release, TempDir, scratch_dir};
use serde_json::json;
use tokio::task::{JoinSet, spawn_blocking};
use tokio_postgres::{Client, NoTls};

use super::gateway::{start_gateway, start_plain};
use super::load::{Clients, Keys};
use super::naive;
use super::report::{Outcome, Sample, command_line, cpus, median};
use crate::Result;

/// How long and how wide the benchmark is.
#[derive(Debug)]
pub(super) struct Course {
    rounds: usize,
    clients: &'static [usize],
    span: Duration,
    warm_up: Duration,
    old_keys: u64,
}

/// The course whose numbers count.
pub(super) const FULL: Course = Course {
    rounds: 5,
    clients: &[32, 128],
    span: Duration::from_secs(2),
    warm_up: Duration::from_millis(300),
    old_keys: 60_000,
};

/// The course that shows that the benchmark runs.
pub(super) const QUICK: Course = Course {
    rounds: 1,
    clients: &[8],
    span: Duration::from_secs(1),
    warm_up: Duration::from_millis(50),
    old_keys: 500,
};

const HOT_KEYS: u64 = 64;
/// Later than the gateway's `cache_for`.
const OLD: Duration = Duration::from_millis(1200);
const RECORDING: Duration = Duration::from_mins(5);

/// What the server runs with: a durable one of a usual size.
pub(super) const SETTINGS: &str = "fsync = on\nsynchronous_commit = on\nshared_buffers = 256MB\nmax_wal_size = 2GB\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Plain,
    Naive,
    Pgbench,
    First,
    ReplayHot,
    ReplayOld,
}

impl Target {
    const ALL: [Self; 6] = [Self::Plain, Self::Naive, Self::Pgbench, Self::First, Self::ReplayHot, Self::ReplayOld];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain proxy",
            Self::Naive => "plain proxy with two commits",
            Self::Pgbench => "pgbench, the two commits alone",
            Self::First => "gateway, first execution",
            Self::ReplayHot => "gateway, replay of hot keys",
            Self::ReplayOld => "gateway, replay from the store",
        }
    }
}

/// One target, measured once.
#[derive(Clone, Copy, Debug)]
struct Cell {
    sample: Sample,
    /// Transactions that wrote something, for each request.
    commits: f64,
}

/// All cells of a target at a number of clients, one per round.
struct Row {
    clients: usize,
    target: Target,
    cells: Vec<Cell>,
}

/// A connection for looking at the server.
pub(super) struct Look {
    pub(super) client: Client,
    _driver: JoinSet<std::result::Result<(), tokio_postgres::Error>>,
}

impl Look {
    pub(super) async fn connect(server: &PostgresServer, database: &str) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(&server.url(database), NoTls).await?;
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        Ok(Self { client, _driver: driver })
    }

    pub(super) async fn number(&self, sql: &str) -> Result<i64> {
        Ok(self.client.query_one(sql, &[]).await?.try_get(0)?)
    }
}

/// How many transactions have written something: each takes a number. `xact_commit` counts reading ones too, and is told up to
/// ten seconds late.
pub(super) const WRITERS: &str = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";

struct Stand {
    server: Arc<PostgresServer>,
    look: Look,
    plain: (Process, SocketAddr),
    naive: (Process, SocketAddr),
    gateway: (Process, SocketAddr),
    _upstream: Process,
    pgbench: Pgbench,
}

/// Its file.
const SCRIPT: &str = "two-commits.sql";

/// The script of the two commits, each with a key of its own.
struct Pgbench {
    folder: TempDir,
}

/// Runs the benchmark against a build of the gateway.
pub(super) async fn run(gateway: &Path, course: &Course) -> Result<Outcome> {
    let stand = Stand::start(gateway).await?;
    for keys in [Keys::hot_once(HOT_KEYS), Keys::old_once(course.old_keys)] {
        Clients::connect(stand.gateway.1, 32, false).await?.drive(&Arc::new(keys), RECORDING).await?;
    }
    tokio::time::sleep(OLD).await;
    let mut rows: Vec<Row> = Vec::new();
    for clients in course.clients {
        rows.extend(Target::ALL.map(|target| Row { clients: *clients, target, cells: Vec::new() }));
    }
    for round in 0..course.rounds {
        eprintln!("round {} of {}", round + 1, course.rounds);
        for clients in course.clients {
            for place in 0..Target::ALL.len() {
                let target = Target::ALL[(place + round) % Target::ALL.len()];
                let cell = stand.measure(target, *clients, course, round).await?;
                let row = rows.iter_mut().find(|row| row.clients == *clients && row.target == target);
                row.ok_or("a row for each target")?.cells.push(cell);
            }
        }
    }
    Ok(report(&rows, course))
}

impl Stand {
    async fn start(program: &Path) -> Result<Self> {
        let server = spawn_blocking(|| PostgresServer::start_with(Release::V15, SETTINGS, &[])).await??;
        let database = server.database().await?;
        server.execute(&database, naive::TABLE).await?;
        let this = std::env::current_exe()?;
        let (upstream, address) = start_plain(Command::new(&this).arg("plain-upstream")).await?;
        let (to, store) = (address.to_string(), server.url(&database));
        let plain = start_plain(Command::new(&this).args(["plain-proxy", &to])).await?;
        let naive = start_plain(Command::new(&this).args(["plain-proxy", &to, "--naive", &store])).await?;
        let gateway = start_gateway(program, address, &store).await?;
        let look = Look::connect(&server, &database).await?;
        let pgbench = Pgbench::write()?;
        Ok(Self { server: Arc::new(server), look, plain, naive, gateway, _upstream: upstream, pgbench })
    }

    async fn measure(&self, target: Target, clients: usize, course: &Course, round: usize) -> Result<Cell> {
        let (process, address) = match target {
            Target::Pgbench => return self.measure_pgbench(clients, course).await,
            Target::Plain => &self.plain,
            Target::Naive => &self.naive,
            Target::First | Target::ReplayHot | Target::ReplayOld => &self.gateway,
        };
        let keys = Arc::new(match target {
            Target::Plain | Target::Pgbench => Keys::none(),
            Target::Naive | Target::First => Keys::fresh(format!("{round}-{clients}")),
            Target::ReplayHot => Keys::hot(HOT_KEYS),
            Target::ReplayOld => Keys::old_once(course.old_keys),
        });
        let replayed = matches!(target, Target::ReplayHot | Target::ReplayOld);
        let warm_up = if target == Target::ReplayOld { Arc::new(Keys::hot(HOT_KEYS)) } else { Arc::clone(&keys) };
        let mut clients = Clients::connect(*address, clients, replayed).await?;
        clients.drive(&warm_up, course.warm_up).await?;
        let (before, written) = (process.cpu_time()?, self.look.number(WRITERS).await?);
        let measured = clients.drive(&keys, course.span).await?;
        let cpu = process.cpu_time()?.saturating_sub(before);
        let written = self.look.number(WRITERS).await? - written;
        let sample = Sample::new(&measured, cpu).ok_or_else(|| format!("{}: nothing was measured", target.name()))?;
        Ok(Cell { sample, commits: per(written, measured.requests) })
    }

    /// A "request" of pgbench's is its whole script. It doesn't say how its latencies are spread, and its CPU isn't asked.
    async fn measure_pgbench(&self, clients: usize, course: &Course) -> Result<Cell> {
        let mut command =
            self.pgbench.command(&self.server, self.look.client_database().await?.as_str(), clients, course.span);
        let before = self.look.number(WRITERS).await?;
        let output = spawn_blocking(move || command.output()).await??;
        let written = self.look.number(WRITERS).await? - before;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let number = |before: &str| -> Result<f64> {
            let line = said.lines().find_map(|line| line.strip_prefix(before));
            let number = line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse().ok());
            number.ok_or_else(|| format!("pgbench: {said} {}", String::from_utf8_lossy(&output.stderr)).into())
        };
        let requests = number("number of transactions actually processed: ")?;
        let (per_second, latency) = (number("tps = ")?, number("latency average = ")? * 1e3);
        let sample = Sample { per_second, p50: latency, p99: f64::NAN, cpu: f64::NAN };
        Ok(Cell { sample, commits: whole(written) / requests })
    }
}

impl Look {
    async fn client_database(&self) -> Result<String> {
        Ok(self.client.query_one("SELECT current_database()::text", &[]).await?.try_get(0)?)
    }
}

impl Pgbench {
    fn write() -> Result<Self> {
        let folder = scratch_dir()?;
        let insert = naive::INSERT.replace("$1", "'bench'").replace("$2", "'pgbench-' || :a || '-' || :b");
        let update = naive::UPDATE
            .replace("$1", "'bench'")
            .replace("$2", "'pgbench-' || :a || '-' || :b")
            .replace("$3", "201")
            .replace("$4", "convert_to(repeat('x', 192), 'UTF8')");
        let random = "\\set a random(0, 2000000000)\n\\set b random(0, 2000000000)\n";
        std::fs::write(folder.path().join(SCRIPT), format!("{random}{insert};\n{update};\n"))?;
        Ok(Self { folder })
    }

    fn command(&self, server: &PostgresServer, database: &str, clients: usize, span: Duration) -> Command {
        let mut command = Command::new("/usr/lib/postgresql/15/bin/pgbench");
        command.args(["-n", "-M", "prepared", "-j", "2", "-h", "127.0.0.1", "-U", "postgres"]);
        command.args(["-p", &server.address().port().to_string(), "-c", &clients.to_string()]);
        command
            .args(["-T", &span.as_secs().max(1).to_string(), "-f"])
            .arg(self.folder.path().join(SCRIPT))
            .arg(database);
        command
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn whole(count: i64) -> f64 {
    count as f64
}

pub(super) fn per(count: i64, requests: u64) -> f64 {
    whole(count) / whole(i64::try_from(requests).unwrap_or(i64::MAX))
}

/// The median of what one target has of another's, taken within each round.
fn share(rows: &[Row], clients: usize, [of, than]: [Target; 2], field: fn(&Cell) -> f64) -> f64 {
    let cells =
        |target| rows.iter().find(|row| row.clients == clients && row.target == target).map(|row| &row.cells[..]);
    let (of, than) = (cells(of).unwrap_or_default(), cells(than).unwrap_or_default());
    median(of.iter().zip(than).map(|(of, than)| field(of) / field(than)))
}

fn report(rows: &[Row], course: &Course) -> Outcome {
    let mut text = format!(
        "`{}`: PostgreSQL 15 with fsync on the same machine, {} CPUs shared by load, proxies, upstream and server. Medians of {} \
         rounds of {} s, interleaved; ratios are taken within a round. Commits are transactions that wrote.{}\n\n",
        command_line(),
        cpus(),
        course.rounds,
        course.span.as_secs_f64(),
        if cfg!(debug_assertions) { " **A debug build: these numbers mean nothing.**" } else { "" },
    );
    text.push_str(
        "| clients | target | requests/s | of the plain proxy | p50 ms | p99 ms | CPU µs/request | commits/request |\n",
    );
    text.push_str("|---:|---|---:|---:|---:|---:|---:|---:|\n");
    let mut results = Vec::new();
    for Row { clients, target, cells } in rows {
        let of = |field: fn(&Cell) -> f64| median(cells.iter().map(field));
        let rate = share(rows, *clients, [*target, Target::Plain], |cell| cell.sample.per_second);
        let (per_second, commits) = (of(|cell| cell.sample.per_second), of(|cell| cell.commits));
        let (p50, p99, cpu) = (of(|cell| cell.sample.p50), of(|cell| cell.sample.p99), of(|cell| cell.sample.cpu));
        let _ = writeln!(
            text,
            "| {clients} | {} | {per_second:.0} | {:.0} % | {:.2} | {} | {} | {commits:.3} |",
            target.name(),
            rate * 100.0,
            p50 / 1e3,
            shown(p99 / 1e3, 2),
            shown(cpu, 1),
        );
        results.push(json!({
            "target": target.name(), "clients": clients, "requests_per_second": per_second, "share_of_plain_proxy": rate,
            "p50_us": p50, "p99_us": p99, "cpu_us_per_request": cpu, "commits_per_request": commits,
        }));
    }
    text.push_str("\n| clients | of a first execution | measured | aim |\n|---:|---|---:|---:|\n");
    for clients in course.clients {
        let rate = |pair| share(rows, *clients, pair, |cell| cell.sample.per_second);
        let cpu = share(rows, *clients, [Target::First, Target::Plain], |cell| cell.sample.cpu);
        let first = rows.iter().find(|row| row.clients == *clients && row.target == Target::First);
        let commits = median(first.into_iter().flat_map(|row| &row.cells).map(|cell| cell.commits));
        for (what, measured, aim) in [
            ("throughput, of the two commits in the plain proxy", rate([Target::First, Target::Naive]), "≥ 2"),
            ("throughput, of the two commits alone", rate([Target::First, Target::Pgbench]), ""),
            ("throughput, of the plain proxy", rate([Target::First, Target::Plain]), ""),
            ("the gateway's CPU, of the plain proxy's", cpu, "≤ 2.5"),
            ("commits a request", commits, "≤ 0.125 at 128"),
            ("throughput of hot replays, of the plain proxy", rate([Target::ReplayHot, Target::Plain]), "≥ 1"),
            (
                "throughput of replays from the store, of the plain proxy",
                rate([Target::ReplayOld, Target::Plain]),
                "≥ 1",
            ),
        ] {
            let _ = writeln!(text, "| {clients} | {what} | {measured:.3} | {aim} |");
        }
    }
    Outcome {
        json: json!({ "benchmark": "postgres", "command": command_line(), "release_build": !cfg!(debug_assertions),
            "rounds": course.rounds, "cpus": cpus(), "results": results }),
        markdown: text,
    }
}

/// A number, or nothing where none was measured.
fn shown(number: f64, digits: usize) -> String {
    if number.is_nan() { String::new() } else { format!("{number:.digits$}") }
}
