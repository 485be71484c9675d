//! Real applications behind the gateway, which close a connection that was idle for five seconds: the gateway must never
//! send on one that is about to close (E12).

use std::io;
use std::time::Duration;

use oncekey_testkit::{
    Answer, AppUpstream, Call, FaultProxy, NodeHttp2Upstream, NodeUpstream, PythonHttp2Upstream, PythonUpstream,
};
use tokio::task::JoinSet;

use super::stand::{Gateway, order, until};

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

/// How often the application executed a key, asked through the gateway.
async fn count(gateway: &Gateway, key: &str) -> u64 {
    let answer = gateway.send(&Call::get(format!("/count?key={key}"))).await;
    answer.json()["count"].as_u64().expect("a count")
}

async fn orders_around_the_idle_close(application: &AppUpstream, settings: &str) {
    let gateway = Gateway::start(&application.url(), settings).await;
    for (number, idle) in IDLE.into_iter().enumerate() {
        // Idleness is what is tested; it has no event.
        tokio::time::sleep(Duration::from_millis(idle)).await;
        burst(&gateway, number).await;
    }
    for number in 0..IDLE.len() {
        for lane in 0..AT_ONCE {
            let key = format!("order-{number}-{lane}");
            assert_eq!(count(&gateway, &key).await, 1, "{key}");
        }
    }
    let replay = gateway.send(&order("order-0-0")).await;
    assert!(replay.is_replay());
    assert_eq!(count(&gateway, "order-0-0").await, 1);
    gateway.end().await;
}

#[tokio::test]
async fn two_hundred_orders_around_the_idle_close_of_fastapi_and_express_are_executed_once_each() {
    let (python, node) = (PythonUpstream::start().await, NodeUpstream::start().await);
    let (python, node) = (python.expect("the FastAPI application"), node.expect("the Express application"));
    tokio::join!(orders_around_the_idle_close(&python, ""), orders_around_the_idle_close(&node, ""));
}

#[tokio::test]
async fn the_same_over_http_2_to_fastapi_under_hypercorn_and_to_node() {
    let (python, node) = (PythonHttp2Upstream::start().await, NodeHttp2Upstream::start().await);
    let (python, node) = (python.expect("the FastAPI application"), node.expect("the application on Node"));
    let settings = "upstream_http = \"2\"\n";
    tokio::join!(orders_around_the_idle_close(&python, settings), orders_around_the_idle_close(&node, settings));
}

/// Longer than the application keeps an idle connection.
const CLOSED: Duration = Duration::from_secs(6);

/// Sends an order while the end of the last one's connection, which the application has closed, is still on its way.
async fn order_after_an_unseen_close(application: &AppUpstream, settings: &str, key: &str) -> Answer {
    let proxy = FaultProxy::start(application.address()).await;
    let gateway = Gateway::start(&proxy.url(), settings).await;
    assert_eq!(gateway.send(&order(&format!("{key}-before"))).await.status, 201);
    proxy.hold();
    tokio::time::sleep(CLOSED).await;
    let mut sent = JoinSet::new();
    let (client, call) = (gateway.client(), order(key));
    sent.spawn(async move { client.call(&call).await });
    until("the claim", async || {
        let listed = gateway.ask(&format!("/api/records?key={key}")).await.json();
        (!listed["records"].as_array()?.is_empty()).then_some(())
    })
    .await;
    // What waits in a socket has no event.
    tokio::time::sleep(Duration::from_millis(500)).await;
    proxy.release();
    sent.join_next().await.expect("a client").expect("no panic").expect("an answer")
}

#[tokio::test]
async fn a_connection_whose_close_is_still_on_its_way_is_not_used() {
    let application = PythonUpstream::start().await.expect("the FastAPI application");
    let (kept_rule, broken_rule) = tokio::join!(
        order_after_an_unseen_close(&application, "", "new"),
        // The control: a gateway that trusts an old connection loses the request on it.
        order_after_an_unseen_close(&application, "upstream_idle = \"1h\"\n", "old"),
    );
    assert_eq!((kept_rule.status.as_u16(), kept_rule.problem()), (201, None), "{kept_rule:?}");
    assert_eq!(application.count("new").await.expect("a count"), 1);
    assert_eq!((broken_rule.status.as_u16(), broken_rule.problem()), (504, Some("outcome-unknown")), "{broken_rule:?}");
    assert_eq!(application.count("old").await.expect("a count"), 0);
}
