//! One provider of cryptography: aws-lc-rs. A second one makes rustls panic wherever a library asks for the process's default,
//! and the system's OpenSSL would make builds depend on their machine.

use super::Finding;

/// What no build takes, and why.
const NEVER: [(&str, &str); 4] = [
    ("ring", "a second provider beside aws-lc-rs"),
    ("openssl-sys", "the machine's OpenSSL"),
    ("openssl", "the machine's OpenSSL"),
    ("native-tls", "the machine's TLS"),
];

/// What every build takes: without it, the list is of something else.
const ALWAYS: &str = "aws-lc-rs";

/// Checks what `cargo tree` lists, one package a line. Packages that are in `Cargo.lock` for a feature that nobody asks for
/// are not among them.
pub(super) fn check(tree: &str) -> Vec<Finding> {
    let takes = |name: &str| tree.lines().any(|line| line.split(' ').next() == Some(name));
    let mut findings: Vec<_> = NEVER
        .iter()
        .filter(|(name, _)| takes(name))
        .map(|(name, why)| Finding::failure(format!("{name}: {why} is built; `cargo tree -i {name}` says for whom")))
        .collect();
    if !takes(ALWAYS) {
        findings.push(Finding::failure(format!("{ALWAYS}: not built, though it is the one provider of cryptography")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_provider_is_fine() {
        assert!(check("oncekey-cli v0.1.0 (path)\naws-lc-rs v1.19.0\nring-buffer v1.0.0\n").is_empty());
    }

    #[test]
    fn a_second_one_and_the_machines_are_found() {
        for name in ["ring", "openssl-sys", "openssl", "native-tls"] {
            assert_eq!(check(&format!("aws-lc-rs v1.19.0\n{name} v0.1.0\n")).len(), 1, "{name}");
        }
    }

    #[test]
    fn a_list_without_the_one_is_found() {
        assert_eq!(check("").len(), 1);
    }
}
