//! The gateway's benchmark: every way through it, beside the plain proxy and the direct upstream.
//!
//! All of it in one run and interleaved: each round measures every target at every number of clients, so that a machine
//! that slows down slows all of them. What is compared is compared within a round; the median of the rounds is reported.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use oncekey_testkit::{Process, TempDir, free_address};

use super::load::{Clients, Keys};
use super::plain::READY;
use super::report::{Outcome, Report, Sample};
use crate::{Result, workspace};

/// How long and how wide the benchmark is.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) rounds: usize,
    pub(super) clients: &'static [usize],
    /// How long each target is measured at a time.
    pub(super) span: Duration,
    /// How long it is warmed up before that.
    pub(super) warm_up: Duration,
    /// How many recorded keys are replayed once each.
    pub(super) old_keys: u64,
}

/// The course whose numbers count.
pub(super) const FULL: Course = Course {
    rounds: 5,
    clients: &[1, 32, 128],
    span: Duration::from_secs(2),
    warm_up: Duration::from_millis(300),
    old_keys: 60_000,
};

/// The course that shows that the benchmark runs.
pub(super) const QUICK: Course = Course {
    rounds: 1,
    clients: &[1, 8],
    span: Duration::from_millis(200),
    warm_up: Duration::from_millis(50),
    old_keys: 300,
};

/// How many keys are replayed from memory.
const HOT_KEYS: u64 = 64;
/// The gateway's `cache_for`, and a little: what was recorded or read longer ago than this is read from the store.
const OLD: Duration = Duration::from_millis(1200);

/// The most that recording may take; a store so slow that it takes longer has no numbers worth a benchmark.
const RECORDING: Duration = Duration::from_mins(5);

/// A way to get an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Direct,
    Plain,
    Unguarded,
    First,
    ReplayHot,
    ReplayOld,
}

impl Target {
    pub(super) const ALL: [Self; 6] =
        [Self::Direct, Self::Plain, Self::Unguarded, Self::First, Self::ReplayHot, Self::ReplayOld];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct upstream",
            Self::Plain => "plain proxy",
            Self::Unguarded => "gateway, no key",
            Self::First => "gateway, first execution",
            Self::ReplayHot => "gateway, replay of hot keys",
            Self::ReplayOld => "gateway, replay from the store",
        }
    }
}

/// The processes, each with its address.
struct Stand {
    upstream: (Process, SocketAddr),
    plain: (Process, SocketAddr),
    gateway: (Process, SocketAddr),
    _store: TempDir,
}

/// Runs the benchmark against a build of the gateway, and writes its report.
pub(super) async fn run(gateway: &Path, course: &Course) -> Result<Outcome> {
    let stand = Stand::start(gateway).await?;
    stand.record(Keys::hot_once(HOT_KEYS)).await?;
    stand.record(Keys::old_once(course.old_keys)).await?;
    // The records are to be older than the gateway's memory of them; age has no event to wait for.
    tokio::time::sleep(OLD).await;

    let mut report = Report::new(course);
    for round in 0..course.rounds {
        eprintln!("round {} of {}", round + 1, course.rounds);
        for clients in course.clients {
            for place in 0..Target::ALL.len() {
                // Each round begins with another target, so that none always follows the same one.
                let target = Target::ALL[(place + round) % Target::ALL.len()];
                report.add(target, *clients, stand.measure(target, *clients, course, round).await?);
            }
        }
    }
    Ok(report.outcome())
}

impl Stand {
    async fn start(program: &Path) -> Result<Self> {
        let this = std::env::current_exe()?;
        let upstream = start_plain(Command::new(&this).arg("plain-upstream")).await?;
        let plain = start_plain(Command::new(&this).args(["plain-proxy", &upstream.1.to_string()])).await?;
        // Beside the results, on the disk that the repository is on: a temporary folder is often no disk at all.
        let folder = workspace::target("bench");
        std::fs::create_dir_all(&folder)?;
        let store = TempDir::new_in(folder)?;
        let gateway =
            start_gateway(program, upstream.1, &format!("sqlite:{}", store.path().join("bench.db").display())).await?;
        Ok(Self { upstream, plain, gateway, _store: store })
    }

    /// Executes each of a limited set of keys once; that all of them were recorded shows when they are replayed.
    async fn record(&self, keys: Keys) -> Result {
        let mut clients = Clients::connect(self.gateway.1, 32, false).await?;
        clients.drive(&Arc::new(keys), RECORDING).await.map(|_| ())
    }

    async fn measure(&self, target: Target, clients: usize, course: &Course, round: usize) -> Result<Sample> {
        let (process, address) = match target {
            Target::Direct => &self.upstream,
            Target::Plain => &self.plain,
            _ => &self.gateway,
        };
        let keys = Arc::new(match target {
            Target::Direct | Target::Plain | Target::Unguarded => Keys::none(),
            Target::First => Keys::fresh(format!("{round}-{clients}")),
            Target::ReplayHot => Keys::hot(HOT_KEYS),
            // Each key once per cell: the next cell that wants it comes after five others, so later than `cache_for`.
            Target::ReplayOld => Keys::old_once(course.old_keys),
        });
        let replayed = matches!(target, Target::ReplayHot | Target::ReplayOld);
        let mut clients = Clients::connect(*address, clients, replayed).await?;
        // Each old key serves once, so they aren't spent on warming up.
        let warm_up = if target == Target::ReplayOld { Arc::new(Keys::hot(HOT_KEYS)) } else { Arc::clone(&keys) };
        clients.drive(&warm_up, course.warm_up).await?;
        let before = process.cpu_time()?;
        let measured = clients.drive(&keys, course.span).await?;
        let cpu = process.cpu_time()?.saturating_sub(before);
        Sample::new(&measured, cpu).ok_or_else(|| format!("{}: no request was measured", target.name()).into())
    }
}

pub(super) async fn start_plain(command: &mut Command) -> Result<(Process, SocketAddr)> {
    let process = Process::start(command)?;
    let line = process.stdout().wait_for(READY).await?;
    let address = line.trim_start_matches(READY).parse()?;
    Ok((process, address))
}

/// Starts a build of the gateway with built-in settings.
pub(super) async fn start_gateway(program: &Path, upstream: SocketAddr, store: &str) -> Result<(Process, SocketAddr)> {
    let (listen, admin) = (free_address()?, free_address()?);
    let mut command = Command::new(program);
    command.arg("serve").args(["--upstream", &format!("http://{upstream}")]).args(["--listen", &listen.to_string()]);
    command.args(["--store", store]).args(["--admin", &admin.to_string()]);
    // Settings of whoever runs this must not become settings of what is measured.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ONCEKEY_")) {
        command.env_remove(name);
    }
    // A store that stalls is to show as time taken, not as an answer to come back later.
    command.env("ONCEKEY_WAIT", "20s");
    let mut process = Process::start(&mut command)?;
    process.ready(admin, "/readyz").await?;
    Ok((process, listen))
}
