//! A program under test, from its start to its end: what it says, what it is sent, what it costs.

mod lines;
pub(crate) mod usage;

use std::io;
use std::net::SocketAddr;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use crate::{Call, Client, PATIENCE};

pub use self::lines::Lines;
pub use self::usage::Memory;

/// How often a program is asked whether it is ready. It has no event to wait for: the question is the protocol.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// A running program. Dropping it kills it (SIGKILL, by its pid), stopped or not.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pid: Pid,
    stdout: Lines,
    stderr: Lines,
    _readers: JoinSet<()>,
}

impl Process {
    /// Starts a program with no input and with its output captured.
    ///
    /// The command is the standard library's, so that its arguments, environment and directory are given as everywhere:
    /// `Process::start(Command::new(env!("CARGO_BIN_EXE_oncekey")).arg("serve"))`. It is used up: a second start needs a
    /// new one.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn start(command: &mut std::process::Command) -> io::Result<Self> {
        let program = std::mem::replace(command, std::process::Command::new(""));
        let mut program = Command::from(program);
        program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = program.spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pid = id.expect("a child that hasn't been waited for has a positive pid");
        let mut readers = JoinSet::new();
        let stdout = Lines::capture(child.stdout.take().expect("stdout is piped"), &mut readers);
        let stderr = Lines::capture(child.stderr.take().expect("stderr is piped"), &mut readers);
        Ok(Self { child, pid, stdout, stderr, _readers: readers })
    }

    /// Its process id. After its end the number may be another's.
    pub fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// What it has written to stdout.
    pub fn stdout(&self) -> &Lines {
        &self.stdout
    }

    /// What it has written to stderr.
    pub fn stderr(&self) -> &Lines {
        &self.stderr
    }

    /// Waits until `GET path` at an address is answered with 200 (`/readyz` on the admin listener, say). Fails when the
    /// program ends first, or after [`PATIENCE`], with what it wrote to stderr.
    pub async fn ready(&mut self, address: SocketAddr, path: &str) -> io::Result<()> {
        let client = Client::new(address);
        let asking = async {
            loop {
                let answer = client.call(&Call::get(path)).await;
                if answer.is_ok_and(|answer| answer.status == 200) {
                    return Ok(());
                }
                if let Some(status) = self.child.try_wait()? {
                    return Err(io::Error::other(format!("ended with {status} before it was ready")));
                }
                tokio::time::sleep(ASK_AGAIN).await;
            }
        };
        let asked = tokio::time::timeout(PATIENCE, asking).await;
        let outcome = asked.unwrap_or_else(|_| Err(io::Error::other(format!("not ready after {PATIENCE:?}"))));
        outcome.map_err(|error| io::Error::other(format!("{error}; its stderr:\n{}", self.stderr.all().join("\n"))))
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub async fn kill9(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL)?;
        self.exited(PATIENCE).await
    }

    /// Sends SIGTERM; [`exited`](Self::exited) waits for what comes of it.
    pub fn terminate(&mut self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Sends SIGHUP.
    pub fn hang_up(&mut self) -> io::Result<()> {
        self.signal(Signal::HUP)
    }

    /// Stops it with SIGSTOP. When this returns, no thread of it runs any more.
    pub fn stop(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        // Stopping is asynchronous; the kernel reports it to the parent. NOWAIT leaves the exit status for `exited`.
        waitid(WaitId::Pid(self.pid), WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        Ok(())
    }

    /// Lets a stopped program go on, with SIGCONT.
    pub fn cont(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Waits for its end. Fails with `TimedOut` when it still runs after `within`; it may be waited for again.
    pub async fn exited(&mut self, within: Duration) -> io::Result<ExitStatus> {
        match tokio::time::timeout(within, self.child.wait()).await {
            Ok(ended) => ended,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("still running after {within:?}"))),
        }
    }

    /// Its memory at this moment.
    pub fn memory(&self) -> io::Result<Memory> {
        usage::memory(self.id())
    }

    /// The CPU time it has used since its start, in user and system mode, all threads; in steps of a clock tick (10 ms).
    pub fn cpu_time(&self) -> io::Result<Duration> {
        usage::cpu_time(self.id())
    }

    fn signal(&mut self, signal: Signal) -> io::Result<()> {
        // Once its end was seen, the pid may be another's.
        if let Some(status) = self.child.try_wait()? {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("already ended with {status}")));
        }
        Ok(kill_process(self.pid, signal)?)
    }
}
