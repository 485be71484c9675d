//! A server whose processes all stand still for longer than `store_timeout`, as on a host that hangs: nothing is executed without
//! its claim (D1), a claim that was given up is never executed (D2), and no outcome is lost (D3).

use std::sync::Arc;

use futures_util::future::join_all;
use oncekey_testkit::{PostgresServer, Release};
use tokio::task::spawn_blocking;

use crate::faults::history::{History, Tally, assert_caught};
use crate::faults::site::Site;

const RUNNING: u32 = 8;

async fn pause(server: &Arc<PostgresServer>, paused: bool) {
    let server = Arc::clone(server);
    spawn_blocking(move || server.pause(paused)).await.expect("no panic").expect("signalled");
}

async fn stalled(broken: &str) -> Result<Tally, String> {
    let server = spawn_blocking(|| PostgresServer::start(Release::V15)).await.expect("no panic").expect("starts");
    let server = Arc::new(server);
    let site = Site::on_store(server.url(&server.database().await.expect("a new database"))).await;
    let history = History::default();
    let plan = site.gateway().set("lease", "5m").set("store_timeout", "500ms").set("record_timeout", "300ms");
    let plan = plan.breaking(broken);
    let (one, two) = (plan.start().await, plan.start().await);
    let names = |what: &str| (0..RUNNING).map(|number| format!("{what}-{number}")).collect::<Vec<_>>();
    let (running, claimed) = (names("running"), names("claimed"));

    let first = join_all(running.iter().map(|key| history.send(one.front, key, &[("x-test-gate", "shut")])));
    let standing = async {
        site.upstream.arrived(RUNNING).await;
        pause(&server, true).await;
        let refused = join_all(claimed.iter().map(|key| history.send(two.front, key, &[]))).await;
        let executed = site.upstream.total();
        site.upstream.open("shut");
        (refused, executed)
    };
    let (given, (refused, executed)) = tokio::join!(first, standing);
    pause(&server, false).await;
    if executed > RUNNING {
        return Err("executed without a claim".to_owned());
    }
    assert!(given.iter().flatten().all(|answer| answer.status == 201), "they are given all the same (D3): {given:?}");
    for answer in refused.iter().flatten() {
        assert_eq!((answer.status.as_u16(), answer.problem()), (503, Some("store-unavailable")), "{answer:?}");
    }
    one.says("/readyz?store", 200).await;
    two.says("/readyz?store", 200).await;
    for key in running.iter().chain(&claimed) {
        // What is being released is waited for.
        while history.send(two.front, key, &[]).await.is_none_or(|answer| answer.status != 201) {}
        history.send(one.front, key, &[]).await;
    }
    let tally = history.check(&site.upstream, &site.records())?;
    eprintln!("a server that stood still: {tally}, {} refused", tally.unavailable);
    assert!(tally.unavailable >= RUNNING as usize, "{tally:?}");
    tally.all_completed()
}

#[tokio::test]
async fn a_server_that_stands_still_costs_a_refusal_and_no_outcome() {
    let tally = stalled("").await.expect("nothing is wrong");
    assert_eq!(tally.executions as usize, tally.keys);
}

#[tokio::test]
async fn control_an_execution_without_a_claim_on_a_standing_server_is_caught() {
    assert_caught(stalled("execute_unclaimed").await, "executed without a claim");
}
