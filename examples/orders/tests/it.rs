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

/// Sends a request, and again while it is told that another is still executing, which takes a second to be said.
async fn settled(client: &Client, call: &Call) -> Answer {
    loop {
        let answer = client.call(call).await.unwrap();
        if answer.status != 202 {
            return answer;
        }
    }
}

fn id(answer: &Answer) -> String {
    answer.json()["order_id"].as_str().unwrap().to_owned()
}
