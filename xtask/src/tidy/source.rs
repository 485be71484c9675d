//! What each file must look like by itself: how it opens, how long it is, what it never holds.

use super::{Finding, files};

/// A file of more lines is looked at twice.
const LONG: usize = 400;
/// A source file of more lines is to be split.
const TOO_LONG: usize = 600;

/// What no Rust file holds, and why. In two halves, so that this file doesn't hold it either.
const NEVER: [([&str; 2], &str); 3] = [
    (["todo", "!("], "unfinished code isn't merged"),
    (["unimplemented", "!("], "unfinished code isn't merged"),
    (["#[ig", "nore"], "a test is run or deleted"),
];

/// Folders that only exist on somebody's machine. In two halves, as above.
const MACHINE_PATHS: [[&str; 2]; 4] = [["/ho", "me/"], ["/Us", "ers/"], ["/ro", "ot/"], ["/wo", "rk/"]];

/// Checks one file, given by its path from the root.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_rust = files::is_rust(path);
    if is_rust {
        check_size(path, text, &mut findings);
        if !text.starts_with("//!") {
            findings.push(Finding::failure(format!("{path}:1: doesn't open with `//!` on what it owns")));
        }
    }
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.split("//").next().unwrap_or_default();
        for (halves, why) in NEVER {
            if is_rust && code.contains(&halves.concat()) {
                findings.push(Finding::failure(format!("{path}:{number}: {}: {why}", halves.concat())));
            }
        }
        for halves in MACHINE_PATHS {
            if holds_path(line, &halves.concat()) {
                findings.push(Finding::failure(format!("{path}:{number}: names a machine's folder: {}", line.trim())));
            }
        }
    }
    findings
}

fn check_size(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let lines = text.lines().count();
    let is_source = path.starts_with("src/") || path.contains("/src/");
    if lines > TOO_LONG && is_source {
        findings.push(Finding::failure(format!("{path}: {lines} lines, more than {TOO_LONG}: split it by ideas")));
    } else if lines > LONG {
        findings.push(Finding::warning(format!("{path}: {lines} lines, more than {LONG}: look twice")));
    }
}

/// Whether a line holds an absolute path that begins so; a longer path that has it in its middle is another matter.
fn holds_path(line: &str, start: &str) -> bool {
    let begins = |at: usize| !line[..at].ends_with(|before: char| before.is_alphanumeric() || "_-.}*".contains(before));
    line.match_indices(start).any(|(at, _)| begins(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(path: &str, text: &str) -> usize {
        check(path, text).iter().filter(|finding| !finding.warning).count()
    }

    #[test]
    fn a_good_file_has_no_findings() {
        assert!(check("crates/core/src/a.rs", "//! Owns a.\n\nfn a() {}\n").is_empty());
    }

    #[test]
    fn a_file_without_an_opening_is_found() {
        assert_eq!(failures("crates/core/src/a.rs", "fn a() {}\n"), 1);
        assert_eq!(failures("crates/core/tests/it/main.rs", ""), 1);
        assert_eq!(failures("README.md", "# oncekey\n"), 0);
    }

    #[test]
    fn long_files_are_warned_about_and_too_long_sources_fail() {
        let file = |lines: usize| format!("//! Owns a.\n{}", "\n".repeat(lines - 1));
        assert!(check("crates/core/src/a.rs", &file(400)).is_empty());
        assert_eq!(check("crates/core/src/a.rs", &file(401)).len(), 1);
        assert_eq!(failures("crates/core/src/a.rs", &file(600)), 0);
        assert_eq!(failures("crates/core/src/a.rs", &file(601)), 1);
        assert_eq!(failures("crates/core/tests/it/a.rs", &file(601)), 0);
        assert_eq!(check("crates/core/tests/it/a.rs", &file(601)).len(), 1);
    }

    #[test]
    fn what_is_never_merged_is_found_in_code_and_not_in_comments() {
        for (halves, _) in NEVER {
            let what = halves.concat();
            assert_eq!(failures("xtask/src/a.rs", &format!("//! Owns a.\nfn a() {{ {what} }}\n")), 1, "{what}");
            assert_eq!(failures("xtask/src/a.rs", &format!("//! Owns a.\n// never {what}\n")), 0, "{what}");
        }
    }

    #[test]
    fn paths_of_a_machine_are_found_wherever_they_begin() {
        for halves in MACHINE_PATHS {
            let path = halves.concat();
            assert_eq!(failures("README.md", &format!("see {path}me/file\n")), 1, "{path}");
            assert_eq!(failures("README.md", &format!("see target{path}me/file\n")), 0, "{path}");
        }
    }
}
