//! Killed, or stopped for long, at each point between the steps of a payment.

use std::time::Duration;

use oncekey_testkit::{Client, PostgresServer};

use crate::{NEW, OLD, Stage, connect, pay, payment};

/// Where the program is killed: what is locked so that it gets no further, and what shows that it has come so far.
struct Point {
    card: &'static str,
    lock: &'static str,
    reached: &'static str,
    /// The steps that are saved by then.
    saved: i64,
}

const WAITS: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
                     AND pid <> pg_backend_pid() AND wait_event_type = 'Lock')";

const POINTS: [Point; 4] = [
    Point { card: "visa", lock: "LOCK TABLE payments IN SHARE MODE", reached: WAITS, saved: 0 },
    // Charged, and the provider doesn't answer.
    Point { card: "hangs", lock: "SELECT", reached: "SELECT true", saved: 1 },
    Point { card: "slow", lock: "SELECT FROM payments FOR UPDATE", reached: WAITS, saved: 2 },
    Point { card: "slow", lock: "SELECT FROM idempotency_keys FOR SHARE", reached: WAITS, saved: 3 },
];

async fn killed_at(server: &PostgresServer, point: Point) {
    let stage = Stage::new(server, false).await;
    let lease = Duration::from_millis(500);
    let (mut process, address) = stage.start(lease).await;
    let (client, call) = (Client::new(address), payment("pay-1", point.card));
    let (holder, driver) = connect(&stage.url).await;
    let hold = async || holder.batch_execute(&format!("BEGIN; {}", point.lock)).await.unwrap();
    if point.saved == 0 {
        hold().await;
    }
    let killing = async {
        if point.saved > 0 {
            stage.until_charged().await;
            hold().await;
        }
        stage.until(point.reached).await;
        process.kill9().await.unwrap();
    };
    let (answer, ()) = tokio::join!(client.call(&call), killing);
    answer.unwrap_err();
    holder.batch_execute("COMMIT").await.unwrap();
    drop((holder, driver));
    // What waited for the lock was told to nobody; the server ends it when it finds that out.
    stage.until("SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database()").await;
    let steps = "SELECT count(*) FROM idempotency_steps";
    let count = async || stage.database.query_one(steps, &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(count().await, point.saved);
    let (_process, address) = stage.start(lease).await;
    let answer = pay(address, "pay-1", point.card).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!((stage.counts().await, count().await), ([1; 4], 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_each_point_a_payment_goes_on_from_there() {
    for point in POINTS {
        killed_at(&OLD, point).await;
    }
    for point in POINTS {
        killed_at(&NEW, point).await;
    }
}

/// Stopped while the provider charges, and for longer than the lease: another process takes over. When the first one goes on, it
/// saves nothing any more, and answers what the other one did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_taken_over_meanwhile_changes_nothing() {
    let stage = Stage::new(&NEW, false).await;
    let lease = Duration::from_millis(500);
    let (mut process, address) = stage.start(lease).await;
    let (_other, elsewhere) = stage.start(lease).await;
    let (client, call) = (Client::new(address), payment("pay-1", "slow"));
    let taking_over = async {
        stage.until_charged().await;
        process.stop().unwrap();
        let answer = pay(elsewhere, "pay-1", "slow").await;
        process.cont().unwrap();
        answer
    };
    let (first, second) = tokio::join!(client.call(&call), taking_over);
    let first = first.unwrap();
    assert_eq!((second.status.as_u16(), first.status.as_u16(), &first.body), (201, 201, &second.body));
    assert!(first.is_replay(), "what it did itself isn't the outcome: {first:?}");
    assert_eq!(stage.counts().await, [1; 4]);
    let charged = "SELECT count(*) = 1 AND min(attempt) = 2 FROM idempotency_steps WHERE name = 'charged'";
    stage.until(charged).await;
}
