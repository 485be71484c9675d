//! When the gateway refuses to start, and with which exit code (64: wrong as configured, 69: a service isn't there).

use std::net::TcpListener;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use oncekey_testkit::{CountingUpstream, PATIENCE, free_address, scratch_dir};
use tokio::time::Instant;

use super::stand::{Gateway, oncekey};

/// Runs `serve` that is to end by itself.
fn serve(directory: &Path, settings: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let file = directory.join("oncekey.toml");
    std::fs::write(&file, settings).expect("written");
    let mut command = oncekey();
    command.current_dir(directory).envs(environment.iter().copied());
    command.arg("serve").arg("--config").arg(&file).args(arguments);
    let (listen, admin) = (free_address().expect("a port").to_string(), free_address().expect("a port").to_string());
    if !arguments.contains(&"--listen") {
        command.args(["--listen", &listen]);
    }
    if !arguments.contains(&"--admin") {
        command.args(["--admin", &admin]);
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("oncekey runs");
    let over = Instant::now() + PATIENCE;
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() > over {
            let _ = child.kill();
            panic!("it serves instead of ending: {settings}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("oncekey runs")
}

fn assert_refused(output: &Output, code: i32, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(output.stdout.is_empty());
    for word in words {
        assert!(said.contains(word), "`{word}` is missing in: {said}");
    }
}

#[test]
fn a_store_that_promises_less_than_a_route_requires_is_refused_with_what_falls_short() {
    let directory = scratch_dir().expect("a directory");
    let settings = "[[route]]\npath = \"/orders\"\nrequire = \"at_most_once\"\n";
    let output = serve(directory.path(), settings, &["--store", "memory:"], &[]);
    assert_refused(&output, 64, &["route /orders", "require = \"at_most_once\"", "best_effort", "memory"]);
}

#[test]
fn a_policy_that_promises_less_than_its_route_requires_is_refused_with_its_setting() {
    let directory = scratch_dir().expect("a directory");
    for (policy, required) in [
        ("on_unknown = \"retry\"", "at_most_once_until_failover"),
        ("on_unknown = \"probe\"\nprobe_url = \"http://api/{scope}/{key}\"", "at_most_once"),
    ] {
        let settings = format!("[[route]]\npath = \"/orders\"\n{policy}\nrequire = \"{required}\"\n");
        let output = serve(directory.path(), &settings, &["--store", "sqlite:oncekey.db"], &[]);
        assert_refused(
            &output,
            64,
            &["oncekey.toml", "route.require", required, policy.lines().next().expect("a line")],
        );
    }
}

#[test]
fn a_probe_whose_secret_is_missing_is_refused_with_its_place() {
    let directory = scratch_dir().expect("a directory");
    let settings = "[[route]]\non_unknown = \"probe\"\nprobe_url = \"http://api/{scope}/{key}\"\n\
                    probe_headers = { Authorization = \"env:PROBE_TOKEN\" }\n";
    let output = serve(directory.path(), settings, &[], &[]);
    assert_refused(&output, 64, &["oncekey.toml:4:17: route.probe_headers: `authorization`: PROBE_TOKEN is not set"]);
}

#[test]
fn in_kubernetes_a_store_of_one_host_needs_the_statement_that_there_is_one() {
    let directory = scratch_dir().expect("a directory");
    let kubernetes = [("KUBERNETES_SERVICE_HOST", "10.0.0.1")];
    for store in ["memory:", "sqlite:oncekey.db"] {
        let output = serve(directory.path(), "", &["--store", store], &kubernetes);
        assert_refused(&output, 64, &["single_node"]);
    }
    assert!(!directory.path().join("oncekey.db").exists(), "a refused start leaves no store");
    // With the statement it goes on, to the next thing that is wrong.
    let output = serve(
        directory.path(),
        "single_node = true\nstore = \"sqlite:absent/oncekey.db\"\nstart_timeout = \"0s\"\n",
        &[],
        &kubernetes,
    );
    assert!(!String::from_utf8_lossy(&output.stderr).contains("single_node = true"), "{output:?}");
    assert_ne!(output.status.code(), Some(0));
}

#[test]
fn a_file_that_is_no_store_of_oncekey_is_refused_and_left_as_it_is() {
    let directory = scratch_dir().expect("a directory");
    let text = directory.path().join("notes.txt");
    std::fs::write(&text, "This is not a database. ".repeat(100)).expect("written");
    let output = serve(directory.path(), "start_timeout = \"0s\"\n", &["--store", "sqlite:notes.txt"], &[]);
    assert_refused(&output, 64, &["notes.txt"]);
    assert!(std::fs::read_to_string(&text).expect("still there").starts_with("This is not a database."));
    for command in [&["records", "list"][..], &["stats"], &["sweep"], &["migrate"]] {
        let output = oncekey().args(command).arg("--store").arg(format!("sqlite:{}", text.display())).output();
        assert_ne!(output.expect("oncekey runs").status.code(), Some(0), "{command:?}");
    }
    assert_eq!(std::fs::read_to_string(&text).expect("still there"), "This is not a database. ".repeat(100));
}

#[test]
fn another_applications_database_is_refused_and_left_as_it_is() {
    let directory = scratch_dir().expect("a directory");
    let file = directory.path().join("shop.db");
    let shop = rusqlite::Connection::open(&file).expect("a database");
    shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY); INSERT INTO orders VALUES (1)").expect("filled");
    drop(shop);
    let before = std::fs::read(&file).expect("a file");
    let output = serve(directory.path(), "", &["--store", "sqlite:shop.db"], &[]);
    assert_refused(&output, 64, &["shop.db"]);
    assert!(std::fs::read(&file).expect("a file") == before, "the file has changed");
}

#[test]
fn a_store_whose_folder_is_not_there_is_a_wrong_configuration() {
    let directory = scratch_dir().expect("a directory");
    let output = serve(directory.path(), "", &["--store", "sqlite:absent/oncekey.db"], &[]);
    assert_refused(&output, 64, &["absent/oncekey.db"]);
}

#[test]
fn without_auto_migrate_a_store_that_nobody_migrated_is_a_missing_service() {
    let directory = scratch_dir().expect("a directory");
    let output = serve(directory.path(), "auto_migrate = false\nstart_timeout = \"0s\"\n", &[], &[]);
    assert_refused(&output, 69, &["oncekey.db"]);
}

#[test]
fn a_taken_port_is_named() {
    let directory = scratch_dir().expect("a directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    for (flag, setting) in [("--listen", "listen"), ("--admin", "admin.listen")] {
        let output = serve(directory.path(), "", &[flag, &address], &[]);
        assert_refused(&output, 1, &[&format!("{setting}: {address}")]);
    }
}

#[test]
fn what_is_not_in_this_version_is_refused_as_such() {
    let directory = scratch_dir().expect("a directory");
    for (settings, arguments) in [
        ("[defaults]\nasync = \"allowed\"\n", &[][..]),
        ("[encryption]\nkeys = []\n", &[]),
        ("", &["--store", "redis://localhost"]),
        ("", &["--fast", "redis://localhost"]),
    ] {
        let output = serve(directory.path(), settings, arguments, &[]);
        assert_refused(&output, 64, &["not in this version"]);
    }
}

#[tokio::test]
async fn a_gateway_told_to_end_ends_with_zero_and_takes_no_new_connections() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let address = gateway.address;
    gateway.end().await;
    assert!(oncekey_testkit::RawClient::connect(address).await.is_err());
}
