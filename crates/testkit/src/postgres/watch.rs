//! Ending a server with whoever started it, even when that is killed and can do nothing about it.
//!
//! A shell of its own session waits at a pipe whose other end this process holds. However this process ends, the pipe does too;
//! the shell then kills the server by its pid and removes its files.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A server that is ended with this value or with this process.
#[derive(Debug)]
pub(super) struct Watched {
    shell: Child,
    directory: PathBuf,
}

/// `$1` is the directory to remove, `$2` the file whose first line is the server's pid. It may be paused.
const WATCH: &str = r#"
read -r _
read -r pid < "$2" && kill -QUIT "$pid" && kill -CONT "$pid"
while kill -0 "$pid" 2> /dev/null; do sleep 0.05; done
rm -rf "$1"
"#;

impl Watched {
    /// Watches over the server whose cluster is in `directory/data`, which is removed with it.
    pub(super) fn postgres(directory: TempDir) -> io::Result<Self> {
        Self::over(directory, "data/postmaster.pid")
    }

    /// Watches over a program that keeps its pid in a file of its directory. It need not run yet.
    pub(super) fn over(directory: TempDir, pid_file: &str) -> io::Result<Self> {
        let path = directory.keep();
        let pid_file = path.join(pid_file);
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", WATCH, "watch"]).arg(&path).arg(pid_file).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Ok(Self { shell: command.spawn()?, directory: path })
    }

    /// The server's directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
