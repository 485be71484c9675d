//! Where the workspace is, and how its commands and those of others are run.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;

/// The workspace's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a member of the workspace, so below its root")
}

/// A path under the workspace's `target/`.
pub(crate) fn target(path: &str) -> PathBuf {
    root().join("target").join(path)
}

/// The cargo that runs this, at the root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Builds a program of the workspace and gives its path.
pub(crate) fn build(package: &str, program: &str, release: bool) -> Result<PathBuf> {
    Ok(built(cargo().args(["build", "--package", package, "--bin", program]), release)?.join(program))
}

/// The same of a package's example, which needs these of its features.
pub(crate) fn build_example(package: &str, example: &str, features: &[&str], release: bool) -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--package", package, "--example", example, "--features", &features.join(",")]);
    Ok(built(&mut command, release)?.join("examples").join(example))
}

/// Builds, and gives the folder of programs. Cargo itself knows where it builds to; this program stands in the same place, so
/// that no setting of cargo's has to be guessed.
fn built(command: &mut Command, release: bool) -> Result<PathBuf> {
    run(command.args(release.then_some("--release")))?;
    let here = std::env::current_exe()?;
    let folder = here.ancestors().nth(2).ok_or("this program isn't where cargo builds programs")?;
    Ok(folder.join(if release { "release" } else { "debug" }))
}

/// Shows a command, runs it with this terminal, and fails when it fails.
pub(crate) fn run(command: &mut Command) -> Result {
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let arguments: Vec<_> = command.get_args().map(std::ffi::OsStr::to_string_lossy).collect();
    let line = format!("{program} {}", arguments.join(" "));
    println!("$ {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` ended with {status}").into()),
        Err(error) => Err(format!("`{line}` can't be run: {error}").into()),
    }
}
