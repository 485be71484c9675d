//! The programs as their README shows them: an order is placed once, and a client sees what it needs to.

#![expect(clippy::unwrap_used, reason = "a test's helper panics like the test itself")]

use std::process::Command;

use oncekey_testkit::Process;

fn place(server: &str, key: &str, sku: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_place")).args([server, key, sku]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn an_order_is_placed_once() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-tonic"));
    let process = Process::start(command.arg("127.0.0.1:0")).unwrap();
    let line = process.stderr().wait_for("listening on ").await.unwrap();
    let server = line.rsplit(' ').next().unwrap();
    assert_eq!(place(server, "order-7", "tea"), "order 1 placed\n");
    assert_eq!(place(server, "order-7", "tea"), "order 1 placed (replayed)\n");
    assert!(place(server, "order-7", "coffee").starts_with("FailedPrecondition: This key belongs to another request"));
    for _ in 0..2 {
        assert_eq!(place(server, "order-8", ""), "InvalidArgument: say what you order [the service's own]\n");
    }
    assert_eq!(place(server, "order-9", "tea"), "order 2 placed\n");
}
