//! The server's disk is full (53100): claims are refused, the outcomes of what runs are kept, and written once there is room (D1,
//! D3). The tables are on a small file system of their own; the log isn't, whose full disk stops a server as a crash does.

use futures_util::future::join_all;
use oncekey_testkit::{PATIENCE, PostgresServer, Release};
use tokio::task::spawn_blocking;

use crate::faults::history::{History, Tally, assert_caught};
use crate::faults::site::{Gateway, Site};

/// A new database takes 7 MiB of it.
const DISK: u64 = 24 << 20;

/// Operations that run when the disk fills up. Their answers are too large for any page that has room.
const RUNNING: u32 = 8;
const LARGE: &[(&str, &str)] = &[("x-test-gate", "shut"), ("x-test-status", "201"), ("x-test-body-bytes", "65536")];

/// Claims that are tried: the first may find room in pages that are there.
const CLAIMS: usize = 400;

/// Claims one operation after the other until there is no room for one; their keys.
async fn claim_until_refused(site: &Site, history: &History, gateway: &Gateway) -> Result<Vec<String>, String> {
    let mut keys = Vec::new();
    for number in 0..CLAIMS {
        let (key, executed) = (format!("claimed-{number}"), site.upstream.total());
        let answer = history.send(gateway.front, &key, &[]).await.expect("an answer");
        if site.upstream.total() > executed && gateway.records().await.state(&key) == "absent" {
            return Err("executed without a claim".to_owned());
        }
        keys.push(key);
        if answer.status != 201 {
            assert_eq!((answer.status.as_u16(), answer.problem()), (503, Some("store-unavailable")), "{answer:?}");
            assert!(answer.header("retry-after").is_some());
            return if site.upstream.total() > executed { Err("executed and refused".to_owned()) } else { Ok(keys) };
        }
    }
    Err(format!("{CLAIMS} claims found room"))
}

async fn full(release: Release, broken: &str) -> Result<Tally, String> {
    let server = spawn_blocking(move || PostgresServer::start_on_small_disk(release, DISK));
    let server = server.await.expect("no panic").expect("starts");
    let site = Site::on_store(server.url(&server.database().await.expect("a new database"))).await;
    let history = History::default();
    let lease = if broken.is_empty() { "1m" } else { "1s" };
    let plan = site.gateway().set("lease", lease).set("record_timeout", "300ms").breaking(broken);
    let (one, two) = (plan.start().await, plan.start().await);

    let mut keys: Vec<_> = (0..RUNNING).map(|number| format!("running-{number}")).collect();
    let first = join_all(keys.iter().map(|key| history.send(one.front, key, LARGE)));
    let filled = async {
        site.upstream.arrived(RUNNING).await;
        server.fill_disk(true).await.expect("filled");
        let claimed = claim_until_refused(&site, &history, &two).await;
        site.upstream.open("shut");
        claimed
    };
    let (answers, claimed) = tokio::join!(first, filled);
    keys.extend(claimed?);
    assert!(answers.iter().flatten().all(|answer| answer.status == 201), "they are given all the same (D3)");
    let records = two.records().await;
    let kept = keys.iter().take(RUNNING as usize).filter(|key| records.state(key) == "processing").count();
    assert_eq!(kept, RUNNING as usize, "none of them found room");

    server.fill_disk(false).await.expect("there is room again");
    if !broken.is_empty() {
        // The owner's end shows that nobody would have recorded them.
        drop(one);
    }
    for key in &keys {
        let answered =
            async { while history.send(two.front, key, &[]).await.is_none_or(|answer| answer.status == 503) {} };
        tokio::time::timeout(PATIENCE, answered).await.map_err(|_| format!("{key}: no final answer"))?;
        history.send(two.front, key, &[]).await;
    }
    let tally = history.check(&site.upstream, &site.records())?;
    eprintln!("{release:?}, a full disk: {tally}, {} refused", tally.unavailable);
    tally.all_completed()
}

#[tokio::test]
async fn a_full_disk_refuses_claims_and_loses_no_outcome() {
    for release in [Release::V15, Release::V18] {
        let tally = full(release, "").await.expect("nothing is wrong");
        assert_eq!(tally.executions as usize, tally.keys, "{release:?}");
    }
}

#[tokio::test]
async fn control_an_outcome_that_is_given_up_on_a_full_disk_is_caught() {
    assert_caught(full(Release::V15, "forget_outcomes").await, "given, and then called unknown");
}

#[tokio::test]
async fn control_an_execution_without_a_claim_on_a_full_disk_is_caught() {
    assert_caught(full(Release::V15, "execute_unclaimed").await, "executed without a claim");
}
