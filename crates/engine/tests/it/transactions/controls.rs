//! Negative controls: with its rule broken, a test of this module fails. Each runs in a process of its own, since rules are broken
//! for a whole process.

use std::process::Command;

/// Whether a test of this binary passes while a rule is broken; an empty rule breaks nothing.
fn passes(test: &str, rule: &str) -> bool {
    let binary = std::env::current_exe().expect("this binary has a path");
    let run = Command::new(binary).args(["--exact", test]).env("ONCEKEYTEST_BREAK", rule).output().expect("it runs");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(said.contains("running 1 test"), "there is no test `{test}`: {said}");
    run.status.success()
}

#[test]
fn each_broken_rule_is_caught() {
    for (rule, test) in [
        ("answer_before_record", "nothing_is_answered_before_the_end_and_a_client_that_leaves_changes_nothing"),
        ("tie_to_client", "nothing_is_answered_before_the_end_and_a_client_that_leaves_changes_nothing"),
        ("commit_errors", "an_answer_after_which_a_retry_may_run_leaves_nothing_and_is_given_as_it_is"),
        ("keep_declined_rows", "an_error_that_is_recorded_leaves_no_rows"),
        ("no_flights", "five_hundred_duplicates_hold_one_transaction"),
        ("unsettled_commits", "ends::a_commit_that_nobody_can_tell_of_is_unknown_until_its_retry_finds_out"),
    ] {
        let test = format!("transactions::{test}");
        assert!(passes(&test, ""), "{test} passes while no rule is broken");
        assert!(!passes(&test, rule), "{test} doesn't notice that {rule} is broken");
    }
}
