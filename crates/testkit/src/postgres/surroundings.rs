//! What a server runs in that a test wants to spoil: a disk that fills up, a clock that jumps.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{getegid, geteuid};

use super::{NOBODY, give, unprivileged};

/// What is put around the start of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Surroundings {
    /// Where a file system of its own is mounted, and its size in bytes. The server alone sees it, and it goes with the server.
    disk: Option<(PathBuf, u64)>,
    /// The file that says how far the server's clock is off.
    clock: Option<PathBuf>,
}

impl Surroundings {
    /// A directory on a small file system.
    pub(super) fn small_disk(directory: PathBuf, bytes: u64) -> io::Result<Self> {
        fs::create_dir(&directory)?;
        Ok(Self { disk: Some((directory, bytes)), clock: None })
    }

    /// A clock that can be set.
    pub(super) fn clock(file: PathBuf) -> io::Result<Self> {
        set_clock(&file, 0)?;
        Ok(Self { disk: None, clock: Some(file) })
    }

    pub(super) fn disk(&self) -> Option<&Path> {
        self.disk.as_ref().map(|(directory, _)| directory.as_path())
    }

    /// Sets the clock so many seconds off.
    pub(super) fn set_clock(&self, seconds: i64) -> io::Result<()> {
        let file = self.clock.as_ref().ok_or_else(|| io::Error::other("its clock is the machine's"))?;
        set_clock(file, seconds)
    }

    /// A program that starts the server within all this.
    pub(super) fn program(&self, program: &Path) -> io::Result<Command> {
        let mut command = match &self.disk {
            None => unprivileged(program),
            Some((directory, bytes)) => mounting(directory, *bytes, &unprivileged(program)),
        };
        if let Some(file) = &self.clock {
            // The library is for the server alone, which can't use what root's programs make of it.
            command = unprivileged(Path::new("env"));
            command.arg(setting("LD_PRELOAD", &libfaketime()?)).arg(setting("FAKETIME_TIMESTAMP_FILE", file));
            // The file is read each time; what has timeouts waits as ever.
            command.args(["FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"]).arg(program);
        }
        Ok(command)
    }
}

fn setting(name: &str, value: &Path) -> OsString {
    let mut setting = OsString::from(format!("{name}="));
    setting.push(value);
    setting
}

/// Runs a command in a mount namespace of its own, in which `directory` is a small file system.
fn mounting(directory: &Path, bytes: u64, plain: &Command) -> Command {
    let is_root = geteuid().is_root();
    let owner = if is_root { format!(",uid={NOBODY},gid={NOBODY}") } else { String::new() };
    let mount = format!("mount -t tmpfs -o size={bytes},mode=700{owner} tmpfs \"$0\" && exec \"$@\"");
    let mut command = Command::new("unshare");
    if !is_root {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "sh", "-c", &mount]).arg(directory);
    if !is_root {
        // Back from being root in there, which PostgreSQL refuses to be.
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        command.args(["unshare", "--user", &format!("--map-user={user}"), &format!("--map-group={group}")]);
    }
    command.arg(plain.get_program()).args(plain.get_args());
    command
}

/// Whole at once, since it is read at any time.
fn set_clock(file: &Path, seconds: i64) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, format!("{seconds:+}\n"))?;
    give(&new)?;
    fs::rename(&new, file)
}

/// Debian's `libfaketime`.
fn libfaketime() -> io::Result<PathBuf> {
    let library = format!("/usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1", std::env::consts::ARCH);
    let library = PathBuf::from(library);
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("{}: install faketime", library.display()));
    if library.exists() { Ok(library) } else { Err(missing()) }
}
