//! What `check-config` and `serve` say of TLS files.

use std::process::Output;

use super::super::stand::oncekey;
use super::*;

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

impl Ground {
    fn run(&self, arguments: &[&str], settings: &str, environment: &[(&str, &str)]) -> Output {
        self.write("oncekey.toml", settings);
        let mut command = oncekey();
        command.args(arguments).arg(self.path("oncekey.toml")).envs(environment.iter().copied());
        command.current_dir(self.directory.path()).output().expect("oncekey runs")
    }
}

#[test]
fn right_files_are_taken_and_doubtful_ones_warned_about() {
    let ground = Ground::new();
    let checked = ground.run(&["check-config"], &ground.tls(), &[]);
    assert_eq!((checked.status.code(), stderr(&checked)), (Some(0), ""));
    ground.put("server", &ground.authority.issue_expired(&["localhost"]));
    let checked = ground.run(&["check-config"], &ground.tls(), &[]);
    assert_eq!(checked.status.code(), Some(0));
    assert!(stderr(&checked).starts_with("warning: "), "{}", stderr(&checked));
    assert!(stderr(&checked).contains("oncekey.toml:2:8: tls.cert: ") && stderr(&checked).contains(" expired on "));
}

#[test]
fn a_wrong_file_is_refused_by_both_with_its_place() {
    let ground = Ground::new();
    ground.put("server", &ground.authority.issue(&["localhost"]));
    ground.write("server.key", &ground.authority.issue(&["localhost"]).key);
    for command in [&["check-config"][..], &["serve", "--config"]] {
        let output = ground.run(command, &ground.tls(), &[]);
        assert_eq!(output.status.code(), Some(64));
        let expected = format!(
            "{}:3:7: tls.key: {}: its private key isn't that of the certificate in {}\n",
            ground.path("oncekey.toml").display(),
            ground.path("server.key").display(),
            ground.path("server.pem").display()
        );
        assert_eq!(stderr(&output), expected);
    }
}

#[test]
fn a_file_that_is_not_there_is_a_warning_to_check_and_a_refusal_to_serve() {
    let ground = Ground::new();
    std::fs::remove_file(ground.path("server.key")).expect("removed");
    let checked = ground.run(&["check-config"], &ground.tls(), &[]);
    assert_eq!(checked.status.code(), Some(0));
    assert!(stderr(&checked).starts_with("warning: ") && stderr(&checked).ends_with("; `serve` needs it\n"));
    let served = ground.run(&["serve", "--config"], &ground.tls(), &[]);
    assert_eq!(served.status.code(), Some(64));
    assert!(stderr(&served).contains("tls.key: ") && stderr(&served).contains("can't be read"));
}

#[test]
fn a_machine_without_authorities_is_told_to_name_some() {
    let ground = Ground::new();
    let settings = "upstream = \"https://localhost\"\n";
    std::fs::create_dir(ground.path("empty")).expect("a directory");
    let empty = ground.path("empty").display().to_string();
    let none = [("SSL_CERT_DIR", empty.as_str())];
    let output = ground.run(&["check-config"], settings, &none);
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("upstream_tls.ca: the system has no certificate authorities"),
        "{}",
        stderr(&output)
    );
    let named = format!("{settings}{}", ground.upstream_tls());
    assert_eq!(ground.run(&["check-config"], &named, &none).status.code(), Some(0));
}
