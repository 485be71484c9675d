//! `oncekey explain`, as a shell sees it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const ORDER: &str = "POST /orders?b=2&a=1 HTTP/1.1\nHost: api\nIdempotency-Key: \"k-1\"\nX-Account-Id: acc-1\n\
                     Content-Type: application/json\n\n{\"amount\": 1200.0, \"at\": \"10:00\"}\n";

/// Runs `oncekey explain` in a directory that holds these requests as `1.http`, `2.http`, …
fn explain(requests: &[&str], arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = command(directory.path());
    for (index, request) in requests.iter().enumerate() {
        let name = format!("{}.http", index + 1);
        std::fs::write(directory.path().join(&name), request).expect("written");
        command.args(["--request", &name]);
    }
    command.args(arguments).output().expect("oncekey runs")
}

fn command(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncekey"));
    command.arg("explain").env_clear().current_dir(directory);
    command
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn printed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn one_request_is_shown_with_all_that_counts() {
    let output = explain(&[ORDER], &[]);
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    let shown = stdout(&output);
    for line in [
        "route        *\n",
        "key          k-1\n",
        "scope        acc-1 (header:X-Account-Id)\n",
        "recipe       v2\n",
        "\nPOST /orders\nquery a = 1\nquery b = 2\nmedia type application/json\nbody, read as JSON:\n\
         {\"amount\":12e2,\"at\":\"10:00\"}\n",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    let json = printed(&explain(&[ORDER], &["--json"]));
    assert_eq!((&json["same"], &json["differences"]), (&Value::Null, &Value::Null));
    let request = &json["requests"][0];
    for (name, value) in [
        ("key", "k-1"),
        ("scope", "acc-1"),
        ("scope_source", "header:X-Account-Id"),
        ("route", "*"),
        ("recipe", "v2"),
        ("read_as", "JSON"),
    ] {
        assert_eq!(request[name], value, "{name}");
    }
    let fingerprint = request["fingerprint"].as_str().expect("a fingerprint");
    assert!(fingerprint.len() == 64 && shown.contains(fingerprint));
    assert!(shown.contains(request["operation_id"].as_str().expect("an id")));
}

#[test]
fn a_request_is_read_from_stdin_too() {
    let directory = tempfile::tempdir().expect("a directory");
    for arguments in [&[][..], &["-"], &["--request", "-"]] {
        let mut child = command(directory.path())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("oncekey runs");
        child.stdin.take().expect("piped").write_all(ORDER.as_bytes()).expect("written");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(output.stdout, explain(&[ORDER], &[]).stdout, "{arguments:?}");
    }
}

#[test]
fn of_two_requests_it_says_what_makes_them_differ() {
    let spelled = ORDER
        .replace("b=2&a=1", "a=1&b=%32")
        .replace("\"k-1\"", "k-1")
        .replace("1200.0, \"at\": \"10:00\"", "1.2e3,\"at\":\"10:0\\u0030\"");
    let same = explain(&[ORDER, &spelled], &[]);
    assert_eq!(same.status.code(), Some(0), "{}", stdout(&same));
    assert!(stdout(&same).ends_with("\nthe second is a retry of the first\n"));
    assert_eq!(printed(&explain(&[ORDER, &spelled], &["--json"]))["same"], true);

    let other = ORDER.replace("1200.0", "1300").replace("a=1", "a=3&c");
    let differs = explain(&[ORDER, &other], &[]);
    assert_eq!(differs.status.code(), Some(1));
    let expected = "\nthe second is no retry of the first:\n  query a\n    - 1\n    + 3\n  query c\n    - (nothing)\n    + \n  \
                    JSON /amount\n    - 12e2\n    + 13e2\n";
    assert!(stdout(&differs).ends_with(expected), "{}", stdout(&differs));
    let json = printed(&explain(&[ORDER, &other], &["--json"]));
    assert_eq!(json["differences"][2], json!({"part": "json", "name": "/amount", "values": ["12e2", "13e2"]}));
}

/// They have one fingerprint and are two operations all the same.
#[test]
fn another_key_or_scope_is_another_operation() {
    for (from, to, part) in [("k-1", "k-2", "key"), ("acc-1", "acc-2", "scope")] {
        let output = explain(&[ORDER, &ORDER.replace(from, to)], &["--json"]);
        assert_eq!(output.status.code(), Some(1));
        let json = printed(&output);
        assert_eq!(json["differences"].as_array().expect("a list").len(), 1);
        assert_eq!((&json["differences"][0]["part"], &json["same"]), (&part.into(), &false.into()));
        assert_eq!(json["requests"][0]["fingerprint"], json["requests"][1]["fingerprint"]);
    }
}

/// Both would be executed: whoever forgot the key mustn't be told that all is well.
#[test]
fn requests_without_a_record_are_no_retries_however_alike() {
    let keyless = ORDER.replace("Idempotency-Key: \"k-1\"\n", "");
    let unguarded = ORDER.replace("POST", "GET");
    let scopeless = ORDER.replace("X-Account-Id: acc-1\n", "");
    for request in [keyless, unguarded, scopeless] {
        let output = explain(&[&request, &request], &[]);
        assert_eq!(output.status.code(), Some(1), "{request}");
        assert!(stdout(&output).contains("nothing differs, but only a request with a record"), "{}", stdout(&output));
        let json = printed(&explain(&[&request, &request], &["--json"]));
        assert_eq!((&json["same"], &json["differences"]), (&json!(false), &json!([])));
    }
}

#[test]
fn what_the_gateway_would_refuse_is_refused_as_it_would() {
    let by_length = |length: usize| format!("{ORDER}{}", "x".repeat(length));
    for (request, status, code) in [
        (ORDER.replace("\"k-1\"", "\"k-1"), 400, "key-invalid"),
        (ORDER.replace("X-Account-Id", "X-Other"), 400, "scope-missing"),
        (ORDER.replace("Host: api", "Host: a\nHost: b"), 400, "request-invalid"),
        (ORDER.replace("Host: api", "Host: api\nContent-Length: 99"), 400, "request-invalid"),
        (by_length(1 << 20), 413, "body-too-large"),
    ] {
        let output = explain(&[&request], &["--json"]);
        assert_eq!(output.status.code(), Some(1), "{code}");
        let problem = &printed(&output)["requests"][0]["problem"];
        assert_eq!((&problem["status"], &problem["code"]), (&status.into(), &code.into()));
        assert_eq!((&problem["body"]["code"], &problem["body"]["status"]), (&code.into(), &status.into()));
        let text = explain(&[&request], &[]);
        assert!(stdout(&text).contains(&format!("refused      {status} {code}: ")), "{}", stdout(&text));
    }
    assert_eq!(explain(&[ORDER, &ORDER.replace("k-1\"", "k-1")], &[]).status.code(), Some(1));
}

#[test]
fn the_configuration_says_which_route_and_recipe() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("oncekey.toml");
    let text = "profile = \"stripe\"\n[[route]]\npath = \"/orders\"\nmethods = [\"POST\"]\nkey = \"required\"\n\
                fingerprint = { ignore = [\"/at\"], headers = [\"X-Region\"] }\n";
    std::fs::write(&config, text).expect("written");
    let config = config.display().to_string();
    let with_config = |requests: &[&str]| explain(requests, &["--json", "--config", &config]);

    let later = ORDER.replace("10:00", "10:05");
    let json = printed(&with_config(&[ORDER, &later]));
    assert_eq!(
        (&json["same"], &json["requests"][1]["recipe"]),
        (&true.into(), &"v2 headers=x-region ignore=/at".into())
    );
    let json = printed(&with_config(&[ORDER, &later.replace("Host", "X-Region: eu\nHost")]));
    assert_eq!(json["differences"], json!([{"part": "header", "name": "x-region", "values": [null, "eu"]}]));

    let json = printed(&with_config(&[&ORDER.replace("Idempotency-Key", "X-Other")]));
    assert_eq!(json["requests"][0]["problem"]["code"], "key-missing");
    let unguarded = with_config(&[&ORDER.replace("/orders", "/else")]);
    let request = &printed(&unguarded)["requests"][0];
    assert_eq!((&request["route"], &request["passes"]), (&Value::Null, &true.into()));
    assert_eq!(unguarded.status.code(), Some(0));
}

#[test]
fn what_clients_sent_cannot_move_the_cursor() {
    let output = explain(&[&ORDER.replace("10:00", "\u{202e}\\u001b[2J").replace("a=1", "a=%1b%0a")], &[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(!stdout(&output).contains(['\u{1b}', '\u{202e}']), "{}", stdout(&output));
}

#[test]
fn what_cannot_be_read_is_wrong_usage() {
    for (requests, arguments) in [
        (&["no request"][..], &[][..]),
        (&[], &["--request", "absent.http"]),
        (&[ORDER], &["--config", "absent.toml"]),
        (&[ORDER, ORDER, ORDER], &[]),
        (&[ORDER], &["-"]),
        (&[], &["--request", "-", "--request", "-"]),
        (&[], &["file.http"]),
    ] {
        let output = explain(requests, arguments);
        assert_eq!(output.status.code(), Some(64), "{requests:?} {arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}
