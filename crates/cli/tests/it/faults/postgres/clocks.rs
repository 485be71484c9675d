//! A server whose clock jumps days ahead and back while gateways sweep: nothing expires and nothing is deleted early (E9).

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use oncekey_testkit::{Call, PATIENCE, PostgresServer, Release};
use tokio::task::spawn_blocking;

use crate::faults::history::{History, Tally, assert_caught};
use crate::faults::site::{Gateway, Site};

const DAY: i64 = 24 * 60 * 60;

const KEYS: usize = 20;

/// Who sweeps while the clock is wrong.
#[derive(Clone, Copy, PartialEq)]
enum Sweeps {
    /// The gateways, which look at how the clock goes.
    Gateways,
    /// An operator as well, whose command believes it.
    Operator,
}

impl Gateway {
    /// Waits until the sweep of its own accord has seen whether the clock runs ahead.
    async fn shows_clock_ahead(&self, ahead: bool) {
        let shown = async {
            loop {
                let metrics = self.admin(&Call::get("/metrics")).await;
                let text = String::from_utf8_lossy(&metrics.body).into_owned();
                let is_ahead = text.lines().any(|line| line == "oncekey_store_clock_ahead 1");
                if is_ahead == ahead {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, shown).await.expect("a sweep sees the clock");
    }
}

async fn jumping(release: Release, sweeps: Sweeps) -> Result<Tally, String> {
    let server = spawn_blocking(move || PostgresServer::start_with_clock(release));
    let server = Arc::new(server.await.expect("no panic").expect("starts"));
    let url = server.url(&server.database().await.expect("a new database"));
    let (site, history) = (Site::on_store(url.clone()).await, History::default());
    let plan = site.gateway().set("lease", "1m").set("sweep_every", "100ms").set("cache_for", "0s");
    let (one, two) = (plan.start().await, plan.start().await);
    let keys: Vec<_> = (0..KEYS).map(|number| format!("key-{number}")).collect();
    for key in &keys {
        history.send(one.front, key, &[]).await;
    }
    let mut fresh = Vec::new();
    // Longer than `ttl` ahead, back, and behind.
    for offset in [3 * DAY, 0, -3 * DAY] {
        server.set_clock(offset).expect("set");
        // At once, before a heartbeat has shown it the clock: it is asked to sweep by what the server says now.
        let (refused, sweep) = (offset > 0, Call::post("/api/sweep").json(""));
        for gateway in [&one, &two] {
            let answer = gateway.admin(&sweep).await;
            assert_eq!(answer.status.as_u16(), if refused { 503 } else { 200 }, "{offset}: {answer:?}");
            gateway.shows_clock_ahead(refused).await;
            for key in &keys {
                history.send(gateway.front, key, &[]).await;
            }
        }
        if offset > 0 && sweeps == Sweeps::Operator {
            let mut sweep = Command::new(env!("CARGO_BIN_EXE_oncekey"));
            let swept = sweep.args(["sweep", "--store", &url]).env_clear().status().expect("oncekey runs");
            assert!(swept.success());
        }
        if offset >= 0 {
            // What is made while the clock is behind expires that much early once it is right, and is nobody's fault.
            let key = format!("fresh-{offset}");
            for gateway in [&one, &two] {
                history.send(gateway.front, &key, &[]).await;
            }
            fresh.push(key);
        }
    }
    server.set_clock(0).expect("set");
    for key in keys.iter().chain(&fresh) {
        history.send(two.front, key, &[]).await;
    }
    let tally = history.check(&site.upstream, &two.records().await)?;
    eprintln!("{release:?}, a clock that jumps: {tally}");
    tally.all_completed()
}

#[tokio::test]
async fn a_clock_that_jumps_expires_and_deletes_nothing_early() {
    for release in [Release::V15, Release::V18] {
        let tally = jumping(release, Sweeps::Gateways).await.expect("nothing is wrong");
        assert_eq!((tally.executions as usize, tally.keys), (KEYS + 2, KEYS + 2), "{release:?}");
    }
}

#[tokio::test]
async fn control_a_sweep_that_believes_the_clock_is_caught() {
    assert_caught(jumping(Release::V15, Sweeps::Operator).await, "executed 2 times");
}
