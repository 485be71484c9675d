//! `oncekey check`: what it finds, what it ends with, and that it leaves everything as it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;

use oncekey_testkit::{CountingUpstream, PostgresServer, free_address, scratch_dir};
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::stand::{Gateway, oncekey, order};
use crate::server::{self, SERVER};

async fn check(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = oncekey();
    command.arg("check").args(arguments).envs(environment.iter().copied());
    spawn_blocking(move || command.output().expect("oncekey runs")).await.expect("no panic")
}

/// What was found, by check: its result and its text.
fn list(output: &Output) -> Vec<(String, String, String)> {
    let list: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |line: &Value, name: &str| line[name].as_str().expect(name).to_owned();
    let lines = list["checks"].as_array().expect("a list");
    for line in lines.iter().filter(|line| line["result"] == "failed") {
        assert!(line["hint"].is_string(), "what failed has a hint: {line}");
    }
    lines.iter().map(|line| (text(line, "check"), text(line, "result"), text(line, "found"))).collect()
}

fn results<'a>(list: &'a [(String, String, String)], check: &str) -> Vec<(&'a str, &'a str)> {
    let of_it = list.iter().filter(|(name, ..)| name == check);
    of_it.map(|(_, result, found)| (result.as_str(), found.as_str())).collect()
}

fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(directory).expect("a directory").map(|file| file.expect("a file"));
    files.map(|file| (file.file_name().into_string().expect("text"), fs::read(file.path()).expect("read"))).collect()
}

#[tokio::test]
async fn a_gateway_that_would_run_is_found_so_and_its_store_is_left_as_it_was() {
    let upstream = CountingUpstream::start().await;
    let (gateway, directory) = (Gateway::start(&upstream.url(), "").await, scratch_dir().expect("a directory"));
    gateway.send(&order("k")).await;
    let store = directory.path().join("copy.db");
    assert!(gateway.operate(&["stats"]).status.success());
    let original = gateway.store_file().to_owned();
    // Beside a running gateway, and on what one has left behind.
    let url = format!("sqlite:{}", original.display());
    let beside = check(&["--upstream", &upstream.url(), "--store", &url], &[]).await;
    assert_eq!(beside.status.code(), Some(0), "{beside:?}");
    fs::copy(&original, &store).expect("copied");
    drop(gateway);

    let before = contents(directory.path());
    let url = format!("sqlite:{}", store.display());
    let token = [("ONCEKEY_ADMIN_TOKEN", "a-token-that-nobody-may-see")];
    let found = check(&["--json", "--upstream", &upstream.url(), "--store", &url], &token).await;
    assert_eq!(found.status.code(), Some(0), "{found:?}");
    let lines = list(&found);
    for name in ["configuration", "admin token", "store rights", "store", "promise", "upstream"] {
        assert_eq!(results(&lines, name)[0].0, "ok", "{name}: {lines:?}");
    }
    assert!(!String::from_utf8_lossy(&[found.stdout, found.stderr].concat()).contains("nobody-may-see"));
    assert_eq!(contents(directory.path()), before);
    assert_eq!(upstream.total(), 1, "nothing was sent");
}

#[tokio::test]
async fn a_first_start_is_foretold_and_nothing_is_made() {
    let (upstream, directory) = (CountingUpstream::start().await, scratch_dir().expect("a directory"));
    let url = format!("sqlite:{}", directory.path().join("new.db").display());
    let arguments = ["--json", "--upstream", &upstream.url(), "--store", &url];
    let first = check(&arguments, &[]).await;
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    assert_eq!(results(&list(&first), "store")[0].0, "warning");
    let by_hand = check(&arguments, &[("ONCEKEY_AUTO_MIGRATE", "false")]).await;
    assert_eq!(by_hand.status.code(), Some(69), "{by_hand:?}");
    assert!(contents(directory.path()).is_empty());
}

#[tokio::test]
async fn what_is_wrong_goes_before_what_is_away() {
    let directory = scratch_dir().expect("a directory");
    let url = format!("sqlite:{}", directory.path().join("new.db").display());
    let upstream = format!("http://{}", free_address().expect("a port"));
    let away = check(&["--upstream", &upstream, "--store", &url], &[]).await;
    let text = String::from_utf8_lossy(&away.stdout).into_owned();
    assert_eq!(away.status.code(), Some(69), "{away:?}");
    assert!(text.lines().any(|line| line.starts_with("FAILED") && line.contains("upstream")), "{text}");
    assert!(text.lines().any(|line| line.trim_start().starts_with("hint: start the upstream")), "{text}");
    assert!(String::from_utf8_lossy(&away.stderr).contains("1 of "), "{away:?}");

    // The secret that a file names isn't there.
    let file = directory.path().join("oncekey.toml");
    fs::write(&file, "[admin]\ntoken = \"env:NOT_THERE\"\n").expect("written");
    let arguments = ["--json", "--config", file.to_str().expect("text"), "--upstream", &upstream, "--store", &url];
    let both = check(&arguments, &[]).await;
    assert_eq!(both.status.code(), Some(64), "{both:?}");
    let lines = list(&both);
    assert_eq!((results(&lines, "admin token")[0].0, results(&lines, "upstream")[0].0), ("failed", "failed"));

    // One secret for those who act and those who look.
    fs::write(&file, "[admin]\ntoken = \"env:ONE\"\nread_token = \"env:ONE\"\n").expect("written");
    let same = check(&arguments, &[("ONE", "a-token-of-sixteen-or-more")]).await;
    assert_eq!((same.status.code(), results(&list(&same), "admin token")[0].0), (Some(64), "failed"), "{same:?}");

    fs::write(&file, "lisen = \"127.0.0.1:1\"\n").expect("written");
    let wrong = check(&arguments, &[]).await;
    assert_eq!(wrong.status.code(), Some(64), "{wrong:?}");
    assert!(results(&list(&wrong), "configuration")[0].1.contains("oncekey.toml:1"), "{wrong:?}");
}

#[tokio::test]
async fn on_a_server_it_sees_rights_clock_and_schema_and_makes_no_table() {
    let upstream = CountingUpstream::start().await;
    let database = server::database().await;
    let run = async |url: &str, environment: &[(&str, &str)]| {
        check(&["--json", "--upstream", &upstream.url(), "--store", url], environment).await
    };
    let url = SERVER.url(&database);
    let first = run(&url, &[]).await;
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    let lines = list(&first);
    assert_eq!((results(&lines, "store")[0].0, results(&lines, "clock")[0].0), ("warning", "ok"), "{lines:?}");
    let none = "DO $$ BEGIN IF to_regclass('oncekey_schema') IS NOT NULL THEN RAISE 'a table'; END IF; END $$";
    SERVER.execute(&database, none).await.expect("there is none");
    assert_eq!(run(&url, &[("ONCEKEY_AUTO_MIGRATE", "false")]).await.status.code(), Some(69));

    let migrated = oncekey().args(["migrate", "--store", &url]).output().expect("oncekey runs");
    assert!(migrated.status.success());
    let ready = run(&url, &[]).await;
    assert_eq!((ready.status.code(), results(&list(&ready), "store")[0].0), (Some(0), "ok"), "{ready:?}");

    let role = format!("poor_{database}");
    let make = format!(
        "CREATE ROLE {role} LOGIN; GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {role}; \
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}"
    );
    SERVER.execute(&database, &make).await.expect("a role");
    let poor = run(&url.replacen("postgres@", &format!("{role}@"), 1), &[]).await;
    assert_eq!(poor.status.code(), Some(64), "{poor:?}");
    let lines = list(&poor);
    let (result, found) = results(&lines, "store rights")[0];
    assert_eq!(result, "failed");
    assert!(found.contains("DELETE on idempotency_keys") && !found.contains("INSERT"), "{found}");
    let drop = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    SERVER.execute(&database, &drop).await.expect("dropped");

    let away = run(&PostgresServer::url_by(free_address().expect("a port"), "orders"), &[]).await;
    assert_eq!(away.status.code(), Some(69), "{away:?}");
}
