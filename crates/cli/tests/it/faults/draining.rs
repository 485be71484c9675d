//! The end of a gateway by SIGTERM: what runs is finished and recorded, what isn't done in time is unknown at once (D4).

use std::time::Duration;

use futures_util::future::join_all;
use oncekey_testkit::{Client, PATIENCE, RawClient};
use tokio::net::TcpStream;

use super::history::{History, Tally, assert_caught};
use super::site::{Gateway, Plan, Records, Site};

const KEYS: [&str; 4] = ["one", "two", "three", "four"];

/// A lease that doesn't end in here: what is unknown was said to be.
fn plan(site: &Site, broken: &str) -> Plan {
    site.gateway().breaking(broken).set("lease", "1h").set("wait", "100ms")
}

/// Waits until the gateway takes no new connection.
async fn refuses(gateway: &Gateway) {
    let refused = async {
        while TcpStream::connect(gateway.front).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("it stops accepting");
}

/// Retries every key on a new process.
async fn retry_all(site: &Site, history: &History) -> Result<Tally, String> {
    let successor = plan(site, "").start().await;
    for _ in 0..2 {
        join_all(KEYS.map(|key| history.send(successor.front, key, &[]))).await;
    }
    history.check(&site.upstream, &successor.records().await)
}

/// SIGTERM while requests run, which then end.
async fn drained(broken: &str) -> Result<Tally, String> {
    let (site, history) = (Site::new().await, History::default());
    let mut gateway = plan(&site, broken).start().await;
    let front = gateway.front;
    let requests = KEYS.map(|key| history.send(front, key, &[("x-test-gate", "slow")]));
    let draining = async {
        site.upstream.arrived(4).await;
        gateway.process.terminate().expect("it lives");
        if !broken.is_empty() {
            // It waits for nothing, so nothing that it waits for has happened when it ends.
            return gateway.process.exited(PATIENCE).await.expect("it ends");
        }
        gateway.says("/readyz", 503).await;
        gateway.says("/healthz", 200).await;
        refuses(&gateway).await;
        site.upstream.open("slow");
        gateway.process.exited(PATIENCE).await.expect("it ends")
    };
    let (_, status) = tokio::join!(join_all(requests), draining);
    assert_eq!(status.code(), Some(0));
    let ended = site.records();
    let completed = KEYS.iter().filter(|key| ended.state(key) == "completed").count();
    let tally = retry_all(&site, &history).await?;
    if completed == KEYS.len() { Ok(tally) } else { Err(format!("{completed} of 4 were recorded when it ended")) }
}

#[tokio::test]
async fn what_runs_is_finished_answered_and_recorded_before_the_end() {
    let tally = drained("").await.expect("nothing is wrong");
    eprintln!("drained: {tally}");
    assert_eq!((tally.executions, tally.completed, tally.unanswered), (4, 4, 0));
}

#[tokio::test]
async fn control_an_end_that_does_not_wait_for_what_runs_is_caught() {
    assert_caught(drained("no_drain").await, "processing");
}

/// SIGTERM while requests run, which never end.
async fn cut_off(broken: &str) -> Result<Tally, String> {
    let (site, history) = (Site::new().await, History::default());
    let mut gateway = plan(&site, broken).set("drain", "1s").start().await;
    let front = gateway.front;
    let requests = KEYS.map(|key| history.send(front, key, &[("x-test-gate", "shut")]));
    let draining = async {
        site.upstream.arrived(4).await;
        gateway.process.terminate().expect("it lives");
        gateway.process.exited(PATIENCE).await.expect("it ends")
    };
    let (_, status) = tokio::join!(join_all(requests), draining);
    assert_eq!(status.code(), Some(0));
    judge_cut(&site.records())?;
    retry_all(&site, &history).await
}

fn judge_cut(records: &Records) -> Result<(), String> {
    let state = |key: &&str| records.state(key) != "unknown";
    match KEYS.iter().find(|key| state(key)) {
        Some(key) => Err(format!("{key} is {} right after the end", records.state(key))),
        None => Ok(()),
    }
}

#[tokio::test]
async fn what_still_runs_when_the_drain_time_is_over_is_unknown_at_once() {
    let tally = cut_off("").await.expect("nothing is wrong");
    eprintln!("cut off by the end of the drain time: {tally}");
    // Their clients are told so before their connections are cut.
    assert_eq!((tally.executions, tally.unknown, tally.unanswered), (4, 4, 0));
}

#[tokio::test]
async fn control_an_end_that_leaves_its_claims_behind_is_caught() {
    assert_caught(cut_off("no_drain").await, "is processing right after the end");
}

#[tokio::test]
async fn a_second_sigterm_ends_at_once_and_what_ran_is_unknown_after_the_lease() {
    let (site, history) = (Site::new().await, History::default());
    let mut gateway = site.gateway().start().await;
    let front = gateway.front;
    let requests = KEYS.map(|key| history.send(front, key, &[("x-test-gate", "shut")]));
    let ending = async {
        site.upstream.arrived(4).await;
        gateway.process.terminate().expect("it lives");
        gateway.says("/readyz", 503).await;
        refuses(&gateway).await;
        gateway.process.terminate().expect("it still lives");
        // Far less than the drain time of 70 seconds.
        gateway.process.exited(Duration::from_secs(10)).await.expect("it ends at once")
    };
    let (_, status) = tokio::join!(join_all(requests), ending);
    assert_eq!(status.code(), Some(1));
    let successor = site.gateway().start().await;
    for _ in 0..2 {
        join_all(KEYS.map(|key| history.send(successor.front, key, &[]))).await;
    }
    let tally = history.check(&site.upstream, &successor.records().await).expect("nothing is wrong");
    assert_eq!((tally.executions, tally.unknown), (4, 4));
}

#[tokio::test]
async fn connections_are_accepted_until_the_drain_delay_is_over() {
    let (site, history) = (Site::new().await, History::default());
    let mut gateway = plan(&site, "").set("drain_delay", "3s").start().await;
    gateway.process.terminate().expect("it lives");
    gateway.says("/readyz", 503).await;
    let answer = history.send(gateway.front, KEYS[0], &[]).await.expect("a new connection is served");
    assert_eq!(answer.status, 201);
    refuses(&gateway).await;
    let status = gateway.process.exited(PATIENCE).await.expect("nothing is left to wait for");
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn idle_connections_do_not_hold_up_the_end() {
    let (site, history) = (Site::new().await, History::default());
    let mut gateway = plan(&site, "").start().await;
    let kept_alive = Client::new(gateway.front);
    history.send_on(&kept_alive, KEYS[0], &[]).await.expect("an answer");
    let _silent = RawClient::connect(gateway.front).await.expect("it connects");
    gateway.process.terminate().expect("it lives");
    let status = gateway.process.exited(Duration::from_secs(10)).await.expect("nothing is left to wait for");
    assert_eq!(status.code(), Some(0));
}
