//! promtool, of Prometheus (Debian's package `prometheus`).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What it said, if it was not content.
type Said = Result<(), String>;

fn said(output: &Output) -> Said {
    let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    if output.status.success() { Ok(()) } else { Err(text) }
}

fn promtool(command: &str, what: &str) -> Command {
    let mut promtool = Command::new("promtool");
    promtool.args([command, what]);
    promtool
}

/// Lints an exposition.
pub(super) fn check_metrics(text: &str) -> Said {
    let mut command = promtool("check", "metrics");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool starts; `cargo xtask test` installs it");
    child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("written");
    said(&child.wait_with_output().expect("it ends"))
}

/// Checks files of rules.
pub(super) fn check_rules(files: &[impl AsRef<Path>]) -> Said {
    run(promtool("check", "rules"), files)
}

/// Runs tests of rules.
pub(super) fn test_rules(files: &[impl AsRef<Path>]) -> Said {
    run(promtool("test", "rules"), files)
}

fn run(mut command: Command, files: &[impl AsRef<Path>]) -> Said {
    command.args(files.iter().map(AsRef::as_ref));
    said(&command.output().expect("promtool starts; `cargo xtask test` installs it"))
}

/// A file of rules that evaluate these expressions.
pub(super) fn rule_file(folder: &Path, expressions: &[String]) -> PathBuf {
    let rule = |(number, expression): (usize, &String)| {
        format!("      - record: a:{number}\n        expr: {}\n", serde_json::Value::from(expression.as_str()))
    };
    let rules: String = expressions.iter().enumerate().map(rule).collect();
    let path = folder.join("expressions.yml");
    std::fs::write(&path, format!("groups:\n  - name: a\n    rules:\n{rules}")).expect("written");
    path
}
