//! Duplicates that wait for another node's outcome (W1): how soon they are woken, and what their waiting costs the server.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use oncekey_testkit::{CommitCutter, CountingUpstream, Pooler, PostgresServer};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::stand::{Gateway, order, until};
use crate::server::{SERVER, database};

const SETTINGS: &str = "[defaults]\nwait = \"20s\"\n";

/// Wake-ups that are measured.
const WAKE_UPS: u32 = 200;

/// The least between two looks of a node, whatever waits there.
const LOOKS_APART: Duration = Duration::from_millis(25);

/// A node looks after records that another one executes by this statement.
const LOOK: &str = "AS wanted";

/// From the first answer on one node to the duplicate's on another, in order of length. The first answer means that the outcome
/// is recorded (E2).
async fn wake_ups(server: SocketAddr) -> Vec<Duration> {
    let (upstream, database, cutter) =
        (CountingUpstream::start().await, database().await, CommitCutter::start(server).await);
    let one = Gateway::on_server(&PostgresServer::url_by(server, &database), &upstream.url(), SETTINGS).await;
    let two = Gateway::on_server(&cutter.url(&database), &upstream.url(), SETTINGS).await;
    let mut took = Vec::new();
    for number in 0..WAKE_UPS {
        let call = order(&format!("key-{number}"));
        let gate = format!("gate-{number}");
        let held = call.clone().header("x-test-gate", &gate);
        let first = async {
            let answer = one.send(&held).await;
            (answer, Instant::now())
        };
        let duplicate = async {
            upstream.arrived(number + 1).await;
            let woken = async {
                let answer = two.send(&call).await;
                (answer, Instant::now())
            };
            let opening = async {
                let before = cutter.statements(LOOK);
                until("a look", || std::future::ready((cutter.statements(LOOK) > before).then_some(()))).await;
                // Any moment between two looks, so a rhythm of its own is laid over theirs.
                tokio::time::sleep(Duration::from_micros(u64::from(number) * 7919 % 25_000)).await;
                upstream.open(&gate);
            };
            tokio::join!(woken, opening).0
        };
        let ((first, recorded), (duplicate, woken)) = tokio::join!(first, duplicate);
        assert_eq!((first.status.as_u16(), first.is_replay()), (201, false));
        assert_eq!((duplicate.status.as_u16(), duplicate.is_replay()), (201, true));
        took.push(woken.saturating_duration_since(recorded));
    }
    assert_eq!(upstream.total(), WAKE_UPS);
    took.sort_unstable();
    took
}

fn tell(by_way_of: &str, took: &[Duration]) {
    let at = |share: usize| took[took.len() * share / 100];
    eprintln!(
        "{} wake-ups across nodes, {by_way_of}: median {:?}, of ten nine within {:?}, of a hundred ninety-nine within {:?}",
        took.len(),
        at(50),
        at(90),
        at(99),
    );
}

#[tokio::test]
async fn a_duplicate_is_woken_by_another_nodes_outcome() {
    tell("directly", &wake_ups(SERVER.address()).await);
}

#[tokio::test]
async fn a_duplicate_is_woken_through_pgbouncer() {
    let pooler = spawn_blocking(|| Pooler::start(&SERVER)).await.expect("no panic").expect("starts");
    tell("through PgBouncer", &wake_ups(pooler.address()).await);
}

/// However many wait, a node asks once a look, and has no connection for any of them.
#[tokio::test]
async fn three_hundred_waiters_cost_the_server_one_statement_a_look() {
    const KEYS: usize = 150;
    let (upstream, database) = (CountingUpstream::start().await, database().await);
    let cutter = CommitCutter::start(SERVER.address()).await;
    let one = Gateway::on_server(&SERVER.url(&database), &upstream.url(), SETTINGS).await;
    let two = Gateway::on_server(&cutter.url(&database), &upstream.url(), SETTINGS).await;
    let looks = || cutter.statements(LOOK);
    let calls: Vec<_> = (0..KEYS).map(|number| order(&format!("key-{number}"))).collect();
    let first = join_all(calls.iter().map(|call| {
        let (client, held) = (one.client(), call.clone().header("x-test-gate", "shut"));
        async move { client.call(&held).await }
    }));
    let watching = async {
        // Whoever comes claims, and is shown the record; once nothing but looks is asked for ten of them, all are there.
        let others = || cutter.statements("") - looks();
        loop {
            let (looked, asked) = (looks(), others());
            until("the waiters", || std::future::ready((looks() >= looked + 10).then_some(()))).await;
            if others() == asked {
                break;
            }
        }
        let (began, before, all_before) = (Instant::now(), looks(), cutter.statements(""));
        until("forty looks", || std::future::ready((looks() >= before + 40).then_some(()))).await;
        let (took, looks, all) = (began.elapsed(), looks() - before, cutter.statements("") - all_before);
        eprintln!("{} waiters at one node: {looks} looks, {all} statements of all kinds within {took:?}", 2 * KEYS);
        assert!(u128::from(looks) <= took.as_millis() / LOOKS_APART.as_millis() + 2, "{looks} looks in {took:?}");
        let few = "DO $$ BEGIN ASSERT (SELECT count(*) FROM pg_stat_activity \
            WHERE datname = current_database() AND application_name = 'oncekey') <= 8; END $$";
        SERVER.execute(&database, few).await.expect("four connections for each of the two");
        upstream.open("shut");
    };
    let duplicates = async {
        upstream.arrived(u32::try_from(KEYS).expect("small")).await;
        let asking = calls.iter().chain(&calls).map(|call| {
            let client = two.client();
            async move { client.call(call).await }
        });
        tokio::join!(join_all(asking), watching).0
    };
    let (first, duplicates) = tokio::join!(first, duplicates);
    for (answers, replay) in [(first, false), (duplicates, true)] {
        for answer in answers {
            let answer = answer.expect("an answer");
            assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, replay));
        }
    }
}
