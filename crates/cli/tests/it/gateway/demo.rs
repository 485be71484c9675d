//! `oncekey demo` as its user meets it: the printed commands are run as they are printed.

use std::path::Path;
use std::process::Command;

use oncekey_testkit::{Call, Client, PATIENCE, Process, scratch_dir};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::stand::oncekey;

/// An answer as `curl -i` prints it.
struct Printed {
    head: String,
    body: String,
}

fn run(command: &str, directory: &Path) -> Printed {
    let output = Command::new("sh").args(["-c", command]).current_dir(directory).output().expect("sh and curl run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    Printed { head: head.to_lowercase(), body: body.to_owned() }
}

/// The commands of a greeting, each on one line.
fn commands(greeting: &[String]) -> Vec<String> {
    let text = greeting.join("\n").replace("\\\n", " ");
    text.lines().map(str::trim).filter(|line| line.starts_with("curl ")).map(str::to_owned).collect()
}

fn address_of(greeting: &[String], what: &str) -> std::net::SocketAddr {
    let line = greeting.iter().find(|line| line.trim_start().starts_with(what)).expect("the greeting names it");
    let rest = line.split_once("http://").expect("a URL").1;
    rest.split_whitespace().next().expect("an address").parse().expect("an address")
}

fn runs(demo: &Process) -> usize {
    demo.stderr().all().iter().filter(|line| line.starts_with("orders API, run ")).count()
}

#[tokio::test]
async fn the_printed_commands_show_one_execution_a_replay_and_a_refusal() {
    // The documented ports are taken, by this test or by somebody else.
    let mut taken = Vec::new();
    for port in [8080, 3000, 9464] {
        taken.extend(TcpListener::bind(("127.0.0.1", port)).await);
    }
    let directory = scratch_dir().expect("a directory");
    let mut demo = Process::start(oncekey().arg("demo").current_dir(directory.path())).expect("the demo starts");
    demo.stdout().wait_for("Ctrl-C").await.expect("a greeting");
    let greeting = demo.stdout().all();
    for (port, what) in [(8080, "gateway"), (3000, "orders API"), (9464, "dashboard")] {
        let said = demo.stderr().wait_for(&format!("port {port} of the {what} can't be had")).await.expect("said so");
        assert!(said.contains("a free one is taken"), "{said}");
        assert_ne!(address_of(&greeting, what).port(), port);
    }
    demo.ready(address_of(&greeting, "dashboard"), "/readyz").await.expect("ready");

    let commands = commands(&greeting);
    let [order, other_amount] = &commands[..] else { panic!("{commands:?}") };
    let (first, replay) = (run(order, directory.path()), run(order, directory.path()));
    assert!(first.head.starts_with("http/1.1 201") && replay.head.starts_with("http/1.1 201"), "{}", first.head);
    assert_eq!(first.body, replay.body);
    assert!(
        first.body.contains("\"account_id\":\"acc-1\"") && first.body.contains("\"amount\":1200,"),
        "{}",
        first.body
    );
    assert!(!first.head.contains("idempotent-replayed"), "{}", first.head);
    assert!(replay.head.contains("\r\nidempotent-replayed: true"), "{}", replay.head);
    let refused = run(other_amount, directory.path());
    assert!(refused.head.starts_with("http/1.1 409"), "{}", refused.head);
    assert!(refused.head.contains("\r\noncekey-problem: key-reused"), "{}", refused.head);
    demo.stderr().wait_for("orders API, run 1: created").await.expect("it ran");
    assert_eq!(runs(&demo), 1);

    let client = Client::new(address_of(&greeting, "gateway"));
    let order: serde_json::Value = serde_json::from_str(&first.body).expect("JSON");
    let path = format!("/orders/{}", order["order_id"].as_str().expect("an id"));
    let read = client.call(&Call::get(path).scope("acc-1")).await.expect("an answer");
    assert_eq!((read.status.as_u16(), &*read.body), (200, first.body.as_bytes()));

    assert!(directory.path().join("oncekey-demo.db").exists());
    demo.terminate().expect("SIGTERM");
    assert!(demo.exited(PATIENCE).await.expect("it ends").success());
}

#[tokio::test]
async fn twenty_orders_at_once_with_one_key_are_one_order() {
    let directory = scratch_dir().expect("a directory");
    let mut demo = Process::start(oncekey().arg("demo").current_dir(directory.path())).expect("the demo starts");
    demo.stdout().wait_for("Ctrl-C").await.expect("a greeting");
    let greeting = demo.stdout().all();
    demo.ready(address_of(&greeting, "dashboard"), "/readyz").await.expect("ready");
    let gateway = address_of(&greeting, "gateway");

    let mut clients = JoinSet::new();
    for _ in 0..20 {
        clients.spawn(async move {
            let order = r#"{"items":[{"sku":"SKU-1","qty":2}],"amount":1200,"currency":"RUB"}"#;
            Client::new(gateway).post("/orders", "acc-1", "twenty", order).await.expect("an answer")
        });
    }
    let answers = clients.join_all().await;
    assert!(answers.iter().all(|answer| answer.status == 201 && answer.body == answers[0].body), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
    demo.terminate().expect("SIGTERM");
    assert!(demo.exited(PATIENCE).await.expect("it ends").success());
    assert_eq!(runs(&demo), 1);
}

/// It has no file to read again, so that signal means what it means to most programs.
#[tokio::test]
async fn the_end_of_its_terminal_is_its_end() {
    let directory = scratch_dir().expect("a directory");
    let mut demo = Process::start(oncekey().arg("demo").current_dir(directory.path())).expect("the demo starts");
    demo.stdout().wait_for("Ctrl-C").await.expect("a greeting");
    demo.ready(address_of(&demo.stdout().all(), "dashboard"), "/readyz").await.expect("ready");
    demo.hang_up().expect("SIGHUP");
    let ended = demo.exited(PATIENCE).await.expect("it ends");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(1), "{ended}");
}
