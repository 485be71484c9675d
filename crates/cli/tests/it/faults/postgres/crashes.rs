//! Servers that crash under load (`pg_ctl restart -m immediate`): what was acknowledged is there when they are back. And what
//! becomes of a server that acknowledges what it hasn't flushed (G1, G2).

use std::sync::Arc;

use futures_util::future::join_all;
use oncekey_testkit::{PostgresServer, Release};
use tokio::task::spawn_blocking;

use super::load::Load;
use crate::faults::history::{History, Tally, assert_caught};
use crate::faults::site::Site;

/// Crashes of a scenario.
const CRASHES: u32 = 4;

/// Executions between two crashes.
const BETWEEN: u32 = 40;

/// A server that flushes what it acknowledges, with further settings.
async fn server(settings: &'static str) -> Arc<PostgresServer> {
    let start = move || PostgresServer::start_with(Release::V15, &format!("fsync = on\n{settings}"), &[]);
    Arc::new(spawn_blocking(start).await.expect("no panic").expect("starts"))
}

async fn crash(server: &Arc<PostgresServer>) {
    let server = Arc::clone(server);
    spawn_blocking(move || server.crash()).await.expect("no panic").expect("crashed and back");
}

async fn site(server: &PostgresServer) -> Site {
    Site::on_store(server.url(&server.database().await.expect("a new database"))).await
}

#[tokio::test]
async fn crashes_under_load_execute_nothing_twice_and_lose_no_outcome() {
    let server = server("").await;
    let site = site(&server).await;
    // Longer than any crash: nothing may count as unknown here, and no answer goes out before it is recorded.
    let plan = site.gateway().set("lease", "1m").set("record_timeout", "1m").set("require", "at_most_once");
    let (one, two) = (plan.start().await, plan.start().await);
    let load = Load::default();
    let crashing = async {
        for _ in 0..CRASHES {
            site.upstream.arrived(site.upstream.total() + BETWEEN).await;
            crash(&server).await;
        }
    };
    let ((), keys) = load.during(&[one.front, two.front], crashing).await;
    load.retry(&[&one, &two], &keys).await.expect("every answer becomes final");
    let tally = load.check(&site).expect("nothing is wrong");
    eprintln!("{CRASHES} crashes of the server: {tally}");
    assert_eq!(tally.executions as usize, tally.keys);
    tally.all_completed().expect("no outcome is lost");
}

/// Commits that are acknowledged before they are flushed, for as long as the server lets them lie.
const UNFLUSHED: &str = "synchronous_commit = off\nwal_writer_delay = 10s\nwal_writer_flush_after = 1GB\n";

#[tokio::test]
async fn a_server_that_acknowledges_what_it_has_not_flushed_is_refused() {
    let server = server(UNFLUSHED).await;
    let site = site(&server).await;
    let (code, stderr) = site.gateway().set("require", "at_most_once").refused().await;
    assert_eq!(code, Some(64), "{stderr}");
    assert!(stderr.contains("`synchronous_commit` is off"), "{stderr}");
}

/// Operations that the upstream is at when the server crashes, and that are asked for again when it is back.
async fn crashed_while_executing(settings: &'static str) -> Result<Tally, String> {
    let server = server(settings).await;
    let (site, history) = (site(&server).await, History::default());
    let plan = site.gateway().set("lease", "1m").set("record_timeout", "1m");
    let (one, two) = (plan.start().await, plan.start().await);
    let keys: Vec<_> = (0..64).map(|number| format!("key-{number}")).collect();
    let first = join_all(keys.iter().map(|key| history.send(one.front, key, &[("x-test-gate", "shut")])));
    let again = async {
        site.upstream.arrived(64).await;
        crash(&server).await;
        let again = join_all(keys.iter().map(|key| history.send(two.front, key, &[])));
        let open = async {
            // Whatever the crash took is executed anew by now, or else waited for.
            two.says("/readyz?store", 200).await;
            history.send(two.front, "other", &[]).await;
            site.upstream.open("shut");
        };
        tokio::join!(again, open);
    };
    tokio::join!(first, again);
    for key in keys.iter().chain([&"other".to_owned()]) {
        history.send(two.front, key, &[]).await;
    }
    history.check(&site.upstream, &site.records())?.all_completed()
}

#[tokio::test]
async fn what_was_executing_when_the_server_crashed_is_not_executed_again() {
    let tally = crashed_while_executing("").await.expect("nothing is wrong");
    eprintln!("crashed while executing: {tally}");
    assert_eq!(tally.executions, 65);
}

#[tokio::test]
async fn control_claims_that_a_crash_takes_back_are_executed_twice() {
    assert_caught(crashed_while_executing(UNFLUSHED).await, "executed 2 times");
}
