//! `cargo xtask test`: everything that must hold before a change is merged, step by step.

mod applications;
mod features;

use std::time::Duration;

use tokio::time::Instant;

use crate::workspace::{self, cargo};
use crate::{Result, tidy};

/// Features that only tests, or not all users, turn on.
const TEST_FEATURES: &[&str] =
    &["oncekey-cli/fault-points", "oncekey-store-postgres/sqlx", "example-orders/fault-points"];

/// A part of the test run.
struct Step {
    name: &'static str,
    run: fn() -> Result,
}

/// All steps, in their order.
const STEPS: [Step; 6] = [
    Step { name: "fmt", run: || workspace::run(cargo().args(["fmt", "--all", "--check"])) },
    Step { name: "clippy", run: clippy },
    Step { name: "tidy", run: tidy::run },
    Step { name: "features", run: features::check },
    Step { name: "unit", run: unit },
    Step { name: "doc", run: doc },
];

fn clippy() -> Result {
    let mut command = cargo();
    command.args(["clippy", "--workspace", "--all-targets"]).args(test_features()).args(["--", "-D", "warnings"]);
    workspace::run(&mut command)
}

/// All tests of all crates. They start real applications, which are set up first.
fn unit() -> Result {
    let applications = applications::set_up()?;
    let mut command = cargo();
    command.args(["test", "--workspace"]).args(test_features()).envs(applications);
    workspace::run(&mut command)
}

fn doc() -> Result {
    workspace::run(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

fn test_features() -> Vec<String> {
    vec!["--features".to_owned(), TEST_FEATURES.join(",")]
}

/// The names that `--only` takes.
pub(crate) fn step_names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

/// Runs all steps, or one. Fails when a step failed; the rest is only run when it is to keep going.
pub(crate) fn run(only: Option<&str>, keep_going: bool) -> Result {
    let mut outcomes = Vec::new();
    for step in STEPS.iter().filter(|step| only.is_none_or(|name| name == step.name)) {
        println!("== {} ==", step.name);
        let start = Instant::now();
        let done = (step.run)();
        let failed = done.is_err();
        outcomes.push((step.name, start.elapsed(), done));
        if failed && !keep_going {
            break;
        }
    }
    summarise(&outcomes)
}

fn summarise(outcomes: &[(&str, Duration, Result)]) -> Result {
    println!("== summary ==");
    for (name, took, done) in outcomes {
        let verdict = done.as_ref().map_or_else(|error| format!("FAILED: {error}"), |()| "ok".to_owned());
        println!("{name:8} {:7.1} s  {verdict}", took.as_secs_f64());
    }
    let failed: Vec<_> = outcomes.iter().filter(|(_, _, done)| done.is_err()).map(|(name, _, _)| *name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_fails_the_run_and_is_named() {
        let took = Duration::ZERO;
        let error = summarise(&[("fmt", took, Ok(())), ("unit", took, Err("no".into()))]).unwrap_err();
        assert_eq!(error.to_string(), "failed: unit");
        assert!(summarise(&[("fmt", took, Ok(()))]).is_ok());
    }

    #[test]
    fn step_names_are_unique() {
        let mut names = step_names();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }
}
