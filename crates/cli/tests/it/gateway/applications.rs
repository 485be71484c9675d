//! Real applications behind the gateway, which close a connection that was idle for five seconds: the gateway must never
//! send on one that is about to close (E12).

use std::io;
use std::time::Duration;

use oncekey_testkit::{Answer, AppUpstream, NodeUpstream, PythonUpstream};
use tokio::task::JoinSet;

use super::stand::{Gateway, order};

/// How many requests are sent at a time: as many connections then wait together.
const AT_ONCE: usize = 8;

/// How long the connections are left idle before each burst, in milliseconds: around the second at which the gateway stops
/// using them, and around the five at which the application closes them.
const IDLE: [u64; 25] = [
    0, 900, 950, 980, 990, 995, 1000, 1005, 1010, 1020, 1050, 1100, 700, 985, 998, 1002, 1500, 0, 4900, 4980, 4995,
    5000, 5010, 5050, 5100,
];

async fn burst(gateway: &Gateway, number: usize) {
    let mut requests: JoinSet<(String, io::Result<Answer>)> = JoinSet::new();
    for lane in 0..AT_ONCE {
        let (client, key) = (gateway.client(), format!("order-{number}-{lane}"));
        requests.spawn(async move { (key.clone(), client.call(&order(&key)).await) });
    }
    for (key, answer) in requests.join_all().await {
        let answer = answer.expect("an answer");
        assert_eq!((answer.status.as_u16(), answer.problem()), (201, None), "{key}: {answer:?}");
        assert_eq!(answer.json()["amount"], 1200);
    }
}

async fn orders_around_the_idle_close(application: &AppUpstream) {
    let gateway = Gateway::start(&application.url(), "").await;
    for (number, idle) in IDLE.into_iter().enumerate() {
        // Idleness is what is tested; it has no event.
        tokio::time::sleep(Duration::from_millis(idle)).await;
        burst(&gateway, number).await;
    }
    for number in 0..IDLE.len() {
        for lane in 0..AT_ONCE {
            let key = format!("order-{number}-{lane}");
            assert_eq!(application.count(&key).await.expect("a count"), 1, "{key}");
        }
    }
    let replay = gateway.send(&order("order-0-0")).await;
    assert!(replay.is_replay());
    assert_eq!(application.count("order-0-0").await.expect("a count"), 1);
    gateway.end().await;
}

#[tokio::test]
async fn two_hundred_orders_around_the_idle_close_of_fastapi_and_express_are_executed_once_each() {
    let (python, node) = (PythonUpstream::start().await, NodeUpstream::start().await);
    let (python, node) = (python.expect("the FastAPI application"), node.expect("the Express application"));
    tokio::join!(orders_around_the_idle_close(&python), orders_around_the_idle_close(&node));
}
