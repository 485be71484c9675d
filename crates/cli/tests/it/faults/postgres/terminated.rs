//! `pg_terminate_backend`, as a failover or an administrator does it: again and again under load, and while claims and outcomes
//! are between their arrival and their commit (D2, D3).

use futures_util::future::join_all;
use oncekey_testkit::PostgresServer;

use super::load::Load;
use crate::faults::history::{History, Tally, assert_caught};
use crate::faults::site::Site;
use crate::server::{SERVER, database};

/// Storms of a scenario; each ends every connection there is.
const STORMS: u32 = 24;

/// Executions between two of them.
const BETWEEN: u32 = 10;

/// Ends every other connection to the database; an error if there were none.
const STORM: &str = "DO $$ BEGIN IF (SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
    WHERE datname = current_database() AND pid <> pg_backend_pid()) = 0 THEN RAISE 'nobody is connected'; END IF; END $$";

/// A site, and its database.
async fn site() -> (Site, String) {
    let database = database().await;
    let site = Site::on_store(PostgresServer::url_by(SERVER.address(), &database)).await;
    (site, database)
}

#[tokio::test]
async fn connections_that_are_ended_again_and_again_cost_no_outcome() {
    let (site, database) = site().await;
    let plan = site.gateway().set("lease", "1m").set("record_timeout", "1m");
    let (one, two) = (plan.start().await, plan.start().await);
    let load = Load::default();
    let storming = async {
        for _ in 0..STORMS {
            site.upstream.arrived(site.upstream.total() + BETWEEN).await;
            SERVER.execute(&database, STORM).await.expect("connections were ended");
        }
    };
    let ((), keys) = load.during(&[one.front, two.front], storming).await;
    load.retry(&[&one, &two], &keys).await.expect("every answer becomes final");
    let tally = load.check(&site).expect("nothing is wrong");
    eprintln!("{STORMS} storms: {tally}");
    assert_eq!(tally.executions as usize, tally.keys);
    tally.all_completed().expect("no outcome is lost");
}

/// Keeps writers waiting, ends the first that waits, and lets the others go.
const END_A_WAITER: &str = "BEGIN; LOCK TABLE idempotency_keys IN SHARE MODE; DO $$ BEGIN \
    WHILE NOT EXISTS (SELECT FROM pg_locks WHERE relation = 'idempotency_keys'::regclass AND NOT granted \
        AND pg_terminate_backend(pid)) LOOP PERFORM pg_sleep(0.005); END LOOP; END $$; COMMIT";

/// Until writers are kept waiting.
const KEPT: &str = "DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE relation = 'idempotency_keys'::regclass \
    AND mode = 'ShareLock' AND granted) LOOP PERFORM pg_sleep(0.005); END LOOP; END $$";

/// The connection of the claim, or else of the outcome, of an operation is ended before it is committed.
async fn ended_before_commit(at_claim: bool, broken: &str) -> Result<Tally, String> {
    let (site, database) = site().await;
    let history = History::default();
    let lease = if broken.is_empty() { "1m" } else { "1s" };
    let plan = site.gateway().set("lease", lease).set("record_timeout", "1s").breaking(broken);
    let (one, two) = (plan.start().await, plan.start().await);
    // Its statements are prepared by then: a connection that ends before that has claimed nothing, and says so.
    for _ in 0..2 {
        history.send(one.front, "before", &[]).await;
    }
    let ending = async { SERVER.execute(&database, END_A_WAITER).await.expect("a connection was ended") };
    let kept = async { SERVER.execute(&database, KEPT).await.expect("writers wait") };
    let script = [("x-test-gate", "shut")];
    if at_claim {
        site.upstream.open("shut");
        let claiming = async {
            kept.await;
            // A lock that is waited for too long is a refusal: it is asked for again.
            while history.send(one.front, "key", &script).await.is_none_or(|answer| answer.status == 503) {}
        };
        tokio::join!(ending, claiming);
    } else {
        let recording = async {
            site.upstream.arrived(2).await;
            tokio::join!(ending, async {
                kept.await;
                site.upstream.open("shut");
            });
        };
        tokio::join!(history.send(one.front, "key", &script), recording);
    }
    if broken == "forget_outcomes" {
        // The owner's end shows that nobody would have recorded it.
        drop(one);
    }
    join_all((0..2).map(|_| history.send(two.front, "key", &[]))).await;
    history.check(&site.upstream, &site.records())?.all_completed()
}

#[tokio::test]
async fn a_claim_or_an_outcome_whose_connection_is_ended_is_made_again() {
    for at_claim in [true, false] {
        let tally = ended_before_commit(at_claim, "").await.expect("nothing is wrong");
        assert_eq!((tally.executions, tally.completed), (2, 2), "at the claim: {at_claim}");
    }
}

#[tokio::test]
async fn control_a_claim_that_counts_as_granted_when_its_connection_is_ended_is_caught() {
    assert_caught(ended_before_commit(true, "grant_lost_claims").await, "executed 2 times");
}

#[tokio::test]
async fn control_an_outcome_that_is_given_up_when_its_connection_is_ended_is_caught() {
    assert_caught(ended_before_commit(false, "forget_outcomes").await, "given, and then called unknown");
}
