//! Completions and man pages, as a shell and `man` get them.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

fn oncekey(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oncekey")).args(arguments).env_clear().output().expect("oncekey runs")
}

fn printed(arguments: &[&str]) -> String {
    let output = oncekey(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{arguments:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The commands that `--help` names.
fn commands() -> Vec<String> {
    let help = printed(&["--help"]);
    let (_, rest) = help.split_once("Commands:\n").expect("a list of commands");
    // What a command does may go on in further lines, which are set in deeper.
    let lines = rest.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    let names = lines.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_shells_completions_know_the_commands_and_their_flags() {
    assert!(commands().contains(&"serve".to_owned()));
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["completions", shell]);
        for word in commands().iter().map(String::as_str).chain(["upstream", "profile", "log-format", "resolve"]) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn bash_takes_the_completions_and_completes_by_them() {
    let script = printed(&["completions", "bash"]);
    let asked = "COMP_WORDS=(oncekey serve --ups); COMP_CWORD=2; _oncekey oncekey --ups serve; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output =
        Command::new("bash").args(["--norc", "-c", &format!("{script}\n{asked}")]).output().expect("bash runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "--upstream", "{output:?}");
}

#[test]
fn a_shell_that_is_not_known_is_wrong_usage() {
    for arguments in [&["completions"][..], &["completions", "tcsh"]] {
        let output = oncekey(arguments);
        assert_eq!(output.status.code(), Some(64));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}

#[test]
fn the_main_page_is_roff_on_stdout() {
    let page = printed(&["man"]);
    assert!(page.contains(".TH oncekey 1"), "{page}");
    for section in [".SH NAME", ".SH SYNOPSIS", ".SH SUBCOMMANDS", ".SH \"EXIT STATUS\"", ".SH SIGNALS"] {
        assert!(page.contains(section), "{section}");
    }
    for command in commands() {
        assert!(page.contains(&format!("oncekey\\-{}(1)", command.replace('-', "\\-"))), "{command}");
    }
}

#[test]
fn each_command_has_a_page_of_its_own_in_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("share/man1");
    assert_eq!(printed(&["man", "--out", &out.display().to_string()]), "");
    let files = fs::read_dir(&out)
        .expect("a folder")
        .map(|file| file.expect("a file").file_name().into_string().expect("UTF-8"));
    let files: BTreeSet<String> = files.collect();
    for command in commands() {
        assert!(files.contains(&format!("oncekey-{command}.1")), "{command}: {files:?}");
    }
    for page in ["oncekey.1", "oncekey-serve.1", "oncekey-records-resolve.1"] {
        assert!(files.contains(page), "{page}: {files:?}");
    }
    assert_eq!(fs::read_to_string(out.join("oncekey.1")).expect("a page"), printed(&["man"]));
    let serve = fs::read_to_string(out.join("oncekey-serve.1")).expect("a page");
    assert!(
        serve.contains("\\-\\-upstream") && serve.contains("oncekey serve") && !serve.contains("EXIT STATUS"),
        "{serve}"
    );
}

#[test]
fn a_folder_that_can_not_be_written_is_a_failure() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let output = oncekey(&["man", "--out", &file.path().display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("can't be written"));
}
