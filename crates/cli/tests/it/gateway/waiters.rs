//! Many duplicates of one slow request (W1–W3): they all get the one answer, and other keys don't suffer.

use std::io;
use std::time::Duration;

use oncekey_testkit::{Answer, Call, CountingUpstream, raise_open_files};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::stand::{Gateway, order};

fn spawn(gateway: &Gateway, clients: &mut JoinSet<io::Result<Answer>>, call: &Call) {
    let (client, call) = (gateway.client(), call.clone());
    clients.spawn(async move { client.call(&call).await });
}

async fn next(clients: &mut JoinSet<io::Result<Answer>>) -> Answer {
    clients.join_next().await.expect("a client").expect("no panic").expect("an answer")
}

/// Sends one more duplicate than may wait, sees that exactly that one is told to come back while the request still runs,
/// and gives the clients that wait.
async fn fill(gateway: &Gateway, upstream: &CountingUpstream, waiters: usize) -> JoinSet<io::Result<Answer>> {
    let mut clients = JoinSet::new();
    let slow = order("slow").header("x-test-gate", "slow");
    let before = upstream.total();
    spawn(gateway, &mut clients, &slow);
    upstream.arrived(before + 1).await;
    for _ in 0..=waiters {
        spawn(gateway, &mut clients, &slow);
    }
    let turned_away = next(&mut clients).await;
    assert_eq!((turned_away.status.as_u16(), turned_away.problem()), (202, Some("in-progress")));
    assert_eq!(turned_away.header("retry-after"), Some("2"));
    let body = turned_away.json();
    assert_eq!((&body["detail"], &body["status"]), (&"Processing".into(), &"processing".into()));
    assert_eq!(body["operation_id"].as_str(), turned_away.header("oncekey-operation-id"));
    clients
}

/// Ends the slow request: its own client gets the first answer, all others its replay.
async fn all_get_the_one_answer(mut clients: JoinSet<io::Result<Answer>>, upstream: &CountingUpstream) {
    upstream.open("slow");
    let (mut first, mut bodies) = (0, Vec::new());
    let waiting = clients.len();
    while !clients.is_empty() {
        let answer = next(&mut clients).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        first += usize::from(!answer.is_replay());
        bodies.push(answer.body);
    }
    assert_eq!((first, bodies.len()), (1, waiting));
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
    assert_eq!(upstream.executions("acc-1", "slow"), 1);
}

#[tokio::test]
async fn by_default_sixty_four_wait_and_the_next_is_told_to_come_back_at_once() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "[defaults]\nwait = \"50s\"\n").await;
    let clients = fill(&gateway, &upstream, 64).await;
    assert_eq!(clients.len(), 65);
    all_get_the_one_answer(clients, &upstream).await;
    gateway.end().await;
}

/// Requests of other keys, four clients at a time, each on a connection of its own; how long each took, the shortest first.
async fn others(gateway: &Gateway, name: &str) -> Vec<Duration> {
    let mut lanes = JoinSet::new();
    for lane in 0..4 {
        let (client, name) = (gateway.client(), name.to_owned());
        lanes.spawn(async move {
            let mut took = Vec::new();
            for number in 0..100 {
                let start = Instant::now();
                let answer = client.call(&order(&format!("{name}-{lane}-{number}"))).await.expect("an answer");
                took.push(start.elapsed());
                assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, false), "{answer:?}");
            }
            took
        });
    }
    let mut took = lanes.join_all().await.concat();
    took.sort_unstable();
    took
}

#[tokio::test]
async fn five_hundred_waiters_on_one_key_get_its_answer_and_do_not_hold_other_keys_up() {
    raise_open_files().expect("files enough");
    let upstream = CountingUpstream::start().await;
    let settings = "[defaults]\nmax_waiters = 500\nwait = \"50s\"\n";
    let gateway = Gateway::start(&upstream.url(), settings).await;
    let without = others(&gateway, "without").await;
    let clients = fill(&gateway, &upstream, 500).await;
    assert_eq!(clients.len(), 501);
    let with = others(&gateway, "with").await;
    let at = |took: &[Duration], percent: usize| took[took.len() * percent / 100];
    for (name, took) in [("without waiters", &without), ("with 500 waiters", &with)] {
        eprintln!("other keys {name}: p50 {:?}, p99 {:?}", at(took, 50), at(took, 99));
    }
    all_get_the_one_answer(clients, &upstream).await;
    assert_eq!(upstream.total(), 801, "each other key executed once");
    gateway.end().await;
}
