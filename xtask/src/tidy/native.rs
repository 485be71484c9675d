//! What the default features of the facade link: nothing that is compiled from C, so that adding oncekey to a program needs no
//! C compiler.

use super::Finding;
use crate::Result;
use crate::workspace::cargo;

/// Crates that compile C or look for a compiled library. Whoever builds either uses one of these.
const BUILDERS: [&str; 6] = ["bindgen", "cc", "cmake", "pkg-config", "system-deps", "vcpkg"];

/// Asks cargo what the facade is built from, with its default features and by nothing else in the workspace.
pub(super) fn check() -> Result<Vec<Finding>> {
    check_with("")
}

fn check_with(features: &str) -> Result<Vec<Finding>> {
    let mut command = cargo();
    command.args(["tree", "--package", "oncekey", "--edges", "normal,build", "--target", "all", "--prefix", "none"]);
    let output = command.args(["--features", features]).output()?;
    if !output.status.success() {
        return Err(format!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(findings(&String::from_utf8_lossy(&output.stdout)))
}

/// Judges the output of `cargo tree`: a crate and its version a line.
fn findings(tree: &str) -> Vec<Finding> {
    let mut builders: Vec<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    builders.retain(|name| BUILDERS.contains(name));
    builders.sort_unstable();
    builders.dedup();
    let finding = |name| Finding::failure(format!("oncekey: its default features build C, by way of {name}"));
    builders.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_builds_c_is_found_once() {
        let tree = "oncekey v0.1.0 (/oncekey)\nlibsqlite3-sys v0.35.0\ncc v1.2.0\npkg-config v0.3.0\ncc v1.2.0 (*)\n";
        let findings: Vec<_> = findings(tree).into_iter().map(|finding| finding.text).collect();
        assert_eq!(
            findings,
            ["cc", "pkg-config"].map(|name| format!("oncekey: its default features build C, by way of {name}"))
        );
        assert!(super::findings("oncekey v0.1.0\naccess v1.0.0\nccs v1.0.0\n").is_empty());
    }

    #[test]
    fn the_facade_needs_no_c_compiler() {
        assert_eq!(check().unwrap(), []);
        assert!(!check_with("sqlite").unwrap().is_empty(), "SQLite is C");
    }
}
