//! The command line and the configuration, as a shell sees them.

use std::path::Path;
use std::process::{Command, Output};

/// `oncekey` with an environment of its own.
fn oncekey(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oncekey"))
        .args(arguments)
        .env_clear()
        .envs(environment.iter().copied())
        .output()
        .expect("oncekey runs")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

#[test]
fn help_and_version_are_answers_on_stdout() {
    for arguments in [&["--help"][..], &["--version"], &["serve", "--help"], &["records", "resolve", "--help"]] {
        let output = oncekey(arguments, &[]);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{arguments:?}");
    }
    assert!(stdout(&oncekey(&["--version"], &[])).starts_with("oncekey 0."));
}

#[test]
fn wrong_usage_exits_64_and_says_so_on_stderr() {
    for arguments in [
        &[][..],
        &["serv"],
        &["serve", "--listn", "127.0.0.1:1"],
        &["serve", "extra"],
        &["records"],
        &["records", "purge"],
        &["records", "resolve", "0f0e0d0c-0b0a-8908-8706-050403020100"],
        &["check-config", "a", "b"],
        &["--log-level", "inof", "check-config"],
        &["--log-format", "xml", "check-config"],
    ] {
        let output = oncekey(arguments, &[]);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
    assert_eq!(oncekey(&["check-config"], &[("RUST_LOG", "oncekey=loud")]).status.code(), Some(64));
}

#[test]
fn a_right_configuration_is_printed_and_can_be_used_as_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = write(directory.path(), "oncekey.toml", "listen = \"0.0.0.0:8080\"\n[[route]]\npath = \"/orders\"\n");
    let first = oncekey(&["check-config", &file], &[("ONCEKEY_WAIT", "3s")]);
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    assert!(stderr(&first).starts_with("warning: default: route.scope: "), "{}", stderr(&first));
    assert!(stdout(&first).contains(&format!("# file {file}:1\n")), "{}", stdout(&first));
    assert!(stdout(&first).contains("# environment ONCEKEY_WAIT\n"));

    let printed = write(directory.path(), "printed.toml", stdout(&first));
    let second = oncekey(&["check-config", &printed], &[]);
    let said = |output: &Output| -> Vec<String> {
        stdout(output).lines().map(|line| line.split("  # ").next().unwrap_or(line).trim_end().to_owned()).collect()
    };
    assert_eq!(said(&first), said(&second));
}

#[test]
fn a_wrong_configuration_exits_64_with_every_error_on_a_line_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = write(directory.path(), "oncekey.toml", "listn = 1\nlease = \"1ms\"\n");
    for arguments in [
        &["check-config", &file][..],
        &["serve", "--config", &file],
        &["migrate", "--config", &file],
        &["records", "list", "--config", &file],
        &["sweep", "--config", &file],
        &["stats", "--config", &file],
    ] {
        let output = oncekey(arguments, &[]);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(output.stdout.is_empty());
        let expected = format!(
            "{file}:1:1: listn: no such setting; did you mean `listen`?\n\
             {file}:2:9: lease: 1ms is out of range; allowed: a duration from 1s to 1h\n"
        );
        assert_eq!(stderr(&output), expected);
    }
}

#[test]
fn a_file_that_is_not_there_or_not_text_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let absent = directory.path().join("absent.toml").display().to_string();
    let output = oncekey(&["serve", "--config", &absent], &[]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).starts_with(&format!("{absent}: can't be read: ")), "{}", stderr(&output));
    let binary = directory.path().join("binary.toml");
    std::fs::write(&binary, [0xff, 0xfe]).expect("written");
    let output = oncekey(&["check-config", &binary.display().to_string()], &[]);
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn flags_beat_the_environment() {
    let wrong = [("ONCEKEY_STORE", "mysql:x")];
    let output = oncekey(&["stats"], &wrong);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).starts_with("environment ONCEKEY_STORE: store: "), "{}", stderr(&output));
    let output = oncekey(&["serve", "--upstream", "ftp://api"], &[]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).starts_with("flag --upstream: upstream: its scheme is no upstream's"));
}

#[test]
fn a_secret_is_never_printed() {
    let environment = [("ONCEKEY_ADMIN_TOKEN", "s3cret-token")];
    let output = oncekey(&["check-config"], &environment);
    assert_eq!(output.status.code(), Some(0));
    assert!(!stdout(&output).contains("s3cret") && !stderr(&output).contains("s3cret"));
    assert!(stdout(&output).contains("token = \"env:ONCEKEY_ADMIN_TOKEN\""));
}

#[test]
fn a_missing_secret_is_a_warning_to_check_and_a_refusal_to_serve() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = write(directory.path(), "oncekey.toml", "[admin]\ntoken = \"env:ONCEKEY_ADMIN_TOKEN\"\n");
    let said = format!("{file}:2:9: admin.token: ONCEKEY_ADMIN_TOKEN is not set");
    let checked = oncekey(&["check-config", &file], &[]);
    assert_eq!(checked.status.code(), Some(0));
    assert_eq!(stderr(&checked), format!("warning: {said}; `serve` needs it\n"));
    let served = oncekey(&["serve", "--config", &file], &[]);
    assert_eq!(served.status.code(), Some(64));
    assert_eq!(stderr(&served), format!("{said}\n"));
}

#[test]
fn a_missing_secret_of_a_probe_is_a_warning_to_check() {
    let directory = tempfile::tempdir().expect("a directory");
    let probe = "[[route]]\non_unknown = \"probe\"\nprobe_url = \"http://127.0.0.1:1/{scope}/{key}\"\n\
                 probe_headers = { Authorization = \"env:PROBE_TOKEN\" }\n";
    let file = write(directory.path(), "oncekey.toml", probe);
    let checked = oncekey(&["check-config", &file], &[]);
    assert_eq!(checked.status.code(), Some(0));
    let said = stderr(&checked);
    assert!(said.starts_with(&format!("warning: {file}:4:17: route.probe_headers: ")), "{said}");
    assert!(said.ends_with("PROBE_TOKEN is not set; `serve` needs it\n"), "{said}");
    assert_eq!(stderr(&oncekey(&["check-config", &file], &[("PROBE_TOKEN", "Bearer t")])), "");
}

#[test]
fn a_key_set_in_a_file_is_read_by_check_as_by_serve() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = directory.path().join("keys.json").display().to_string();
    let jwt =
        format!("[jwt]\njwks = \"file:{keys}\"\nissuer = \"i\"\naudience = \"a\"\n[defaults]\nscope = [\"jwt:sub\"]\n");
    let file = write(directory.path(), "oncekey.toml", &jwt);
    let absent = oncekey(&["check-config", &file], &[]);
    assert_eq!(absent.status.code(), Some(0));
    let said = format!("warning: {file}:2:8: jwt.jwks: file:{keys}: it can't be read: ");
    assert!(stderr(&absent).starts_with(&said) && stderr(&absent).ends_with("; `serve` needs it\n"), "{absent:?}");

    write(directory.path(), "keys.json", "{\"keys\":[]}");
    let wrong = oncekey(&["check-config", &file], &[]);
    assert_eq!(wrong.status.code(), Some(64));
    let said = format!("{file}:2:8: jwt.jwks: file:{keys}: it holds no key that can verify a token\n");
    assert_eq!((stderr(&wrong), stdout(&wrong)), (said.as_str(), ""));

    write(
        directory.path(),
        "keys.json",
        "{\"keys\":[{\"kty\":\"oct\",\"k\":\"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2Vj\"}]}",
    );
    assert_eq!(stderr(&oncekey(&["check-config", &file], &[])), "");
}

#[test]
fn no_file_is_looked_for_if_none_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path(), "oncekey.toml", "nonsense");
    let output = Command::new(env!("CARGO_BIN_EXE_oncekey"))
        .arg("check-config")
        .env_clear()
        .current_dir(directory.path())
        .output()
        .expect("oncekey runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}
