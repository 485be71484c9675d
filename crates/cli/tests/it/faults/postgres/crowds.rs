//! Crowds at two gateways: one execution a key (E1), also where the server has next to no connections to give.

use futures_util::future::join_all;
use oncekey_testkit::{Client, Pooler};
use tokio::task::spawn_blocking;

use super::site;
use crate::faults::barrier::rounds_at;
use crate::faults::history::{History, assert_caught};
use crate::faults::site::Site;
use crate::server::{SERVER, database};

/// Keys that a crowd asks for, one after the other. `ONCEKEY_TEST_KEYS` says how many, for a longer run than CI's.
#[expect(clippy::disallowed_methods, reason = "a switch of this test; not a setting")]
fn keys() -> usize {
    std::env::var("ONCEKEY_TEST_KEYS").map_or(300, |keys| keys.parse().expect("ONCEKEY_TEST_KEYS is a number"))
}

#[tokio::test]
async fn sixty_four_clients_at_each_of_two_gateways_are_one_execution_a_key() {
    let keys = keys();
    let tally = rounds_at(&site().await, 2, 128, keys, "").await.expect("nothing is wrong");
    assert_eq!((tally.completed, tally.replays), (keys, keys * 128));
}

#[tokio::test]
async fn the_server_alone_keeps_executions_apart() {
    let tally = rounds_at(&site().await, 2, 32, 20, "no_flights").await.expect("the server decides");
    assert_eq!((tally.completed, tally.replays), (20, 20 * 32));
}

#[tokio::test]
async fn control_claims_that_are_granted_to_everyone_are_caught_on_a_server() {
    assert_caught(rounds_at(&site().await, 2, 64, 10, "grant_every_claim").await, "executed ");
}

/// Five hundred clients, half of them for one key, on two gateways whose server takes two transactions at a time: everyone is
/// answered, and what has ended is recorded though more keeps coming.
#[tokio::test]
async fn two_connections_to_the_server_serve_five_hundred_clients() {
    const CLIENTS: usize = 500;
    let pooler = spawn_blocking(|| Pooler::start_with(&SERVER, 2)).await.expect("no panic").expect("starts");
    let database = database().await;
    let site = Site::on_store(pooler.url(&database)).await;
    let plan = site.gateway().set("lease", "30s").set("max_waiters", "1000");
    let (one, two) = tokio::join!(plan.start(), plan.start());
    let history = History::default();
    let asking = (0..CLIENTS).map(|number| {
        let front = if number / 2 % 2 == 0 { one.front } else { two.front };
        let key = if number % 2 == 0 { "hot".to_owned() } else { format!("own-{number}") };
        let history = &history;
        async move {
            let client = Client::new(front);
            let first = history.send_on(&client, &key, &[("x-test-delay-ms", "10")]).await;
            (first, history.send_on(&client, &key, &[]).await)
        }
    });
    let counting = async {
        site.upstream.arrived(50).await;
        SERVER
            .execute(
                &database,
                "DO $$ BEGIN ASSERT (SELECT count(*) FROM pg_stat_activity \
            WHERE datname = current_database() AND application_name = 'oncekey') BETWEEN 1 AND 2; END $$",
            )
            .await
    };
    let (answers, counted) = tokio::join!(join_all(asking), counting);
    counted.expect("two connections, and no more");
    for (first, again) in answers {
        for answer in [first, again] {
            assert_eq!(answer.map(|answer| answer.status.as_u16()), Some(201));
        }
    }
    let tally = history.check(&site.upstream, &site.records()).expect("nothing is wrong");
    eprintln!("{CLIENTS} clients on two connections: {tally}");
    assert_eq!((tally.completed, tally.executions as usize), (CLIENTS / 2 + 1, CLIENTS / 2 + 1));
}
