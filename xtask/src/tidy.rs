//! `cargo xtask tidy`: the layout rules that a machine can check. One line per finding.
//!
//! A rule stands here only if it can be checked truly: a false alarm would teach people to look away.

mod edges;
mod files;
mod native;
mod providers;
mod source;
mod words;

use crate::Result;
use crate::workspace::{cargo, root};

/// Something that breaks a rule, or comes near it.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// Whether it only asks for a second look.
    warning: bool,
    /// Where and what, in one line.
    text: String,
}

impl Finding {
    fn failure(text: impl Into<String>) -> Self {
        Self { warning: false, text: text.into() }
    }

    fn warning(text: impl Into<String>) -> Self {
        Self { warning: true, text: text.into() }
    }
}

/// Checks the workspace; fails when a rule is broken.
pub(crate) fn run() -> Result {
    let metadata = cargo().args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    if !metadata.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&metadata.stderr)).into());
    }
    let mut findings = edges::check(&serde_json::from_slice(&metadata.stdout)?);
    findings.extend(native::check()?);
    findings.extend(providers::check(&resolved()?));
    for (path, text) in files::texts(root())? {
        findings.extend(source::check(&path, &text));
        findings.extend(words::check(&path, &text));
    }
    for Finding { warning, text } in &findings {
        println!("{}: {text}", if *warning { "warning" } else { "failure" });
    }
    match findings.iter().filter(|finding| !finding.warning).count() {
        0 => Ok(()),
        failures => Err(format!("{failures} layout rules are broken").into()),
    }
}

/// Every package that a build of the workspace and its tests takes on this platform, one a line: `NAME vVERSION`.
fn resolved() -> Result<String> {
    let arguments = ["tree", "--workspace", "--all-features", "--edges", "all", "--prefix", "none", "--format", "{p}"];
    let tree = cargo().args(arguments).output()?;
    if !tree.status.success() {
        return Err(format!("cargo tree failed: {}", String::from_utf8_lossy(&tree.stderr)).into());
    }
    Ok(String::from_utf8(tree.stdout)?)
}
