//! The program as its README shows it, and killed again and again, on each database: an order is placed once, whatever happens.

#![expect(clippy::unwrap_used, reason = "a test's helper panics like the test itself")]

#[path = "it/kills.rs"]
mod kills;
#[path = "it/readme.rs"]
mod readme;
#[path = "it/site.rs"]
mod site;

use oncekey_testkit::{Answer, Call, Client};

const TEA: &str = r#"{"items":[{"sku":"tea","qty":2}],"amount":12.50,"currency":"EUR"}"#;

fn order(account: &str, key: &str) -> Call {
    Call::post("/orders").scope(account).key(key).json(TEA)
}

async fn place(client: &Client, account: &str, key: &str) -> Answer {
    client.call(&order(account, key)).await.unwrap()
}

fn id(answer: &Answer) -> String {
    answer.json()["order_id"].as_str().unwrap().to_owned()
}
