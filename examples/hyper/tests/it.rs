//! The program as its README shows it: an order is placed once.

use std::process::Command;

use oncekey_testkit::{Client, Process};

#[tokio::test]
async fn an_order_is_placed_once() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-hyper"));
    let process = Process::start(command.arg("127.0.0.1:0")).unwrap();
    let line = process.stderr().wait_for("listening on http://").await.unwrap();
    let client = Client::new(line.rsplit('/').next().unwrap().parse().unwrap());
    for (key, order, replayed) in [("order-7", 1, false), ("order-7", 1, true), ("order-8", 2, false)] {
        let answer = client.post("/orders", "acc-1", key, "tea").await.unwrap();
        assert_eq!(answer.is_replay(), replayed, "{key}");
        assert_eq!(answer.body, format!("order {order} placed\n"));
    }
}
