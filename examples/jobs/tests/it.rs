//! The program as its README shows it: a message is handled once, in one run of the program and across runs.

#![expect(clippy::unwrap_used, reason = "a test's helper panics like the test itself")]

use std::process::Command;

use oncekey_testkit::TempDir;

fn deliver(folder: &TempDir, messages: &[&str]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-jobs"));
    let output = command.arg(folder.path().join("jobs.db")).args(messages).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(ToOwned::to_owned).collect()
}

#[test]
fn a_message_is_handled_once() {
    let folder = TempDir::new().unwrap();
    let first = deliver(&folder, &["m-1", "m-2", "m-1"]);
    assert!(first[0].starts_with("m-1: invoice sent under ") && !first[0].ends_with("(earlier)"), "{first:?}");
    assert_eq!(first[2], format!("{} (earlier)", first[0]));
    let second = deliver(&folder, &["m-2", "m-3"]);
    assert_eq!(second[0], format!("{} (earlier)", first[1]));
    assert!(second[1].starts_with("m-3: invoice sent under ") && !second[1].ends_with("(earlier)"), "{second:?}");
}
