//! Connections and servers that go away around the commit: whether it took place is found out, and nothing is torn.

use std::time::Duration;

use oncekey_core::State;
use oncekey_store::{Closed, Ending, StoreError};
use oncekey_store_postgres::{PostgresStore, TransactionOptions};
use oncekey_store_test::samples;
use oncekey_testkit::{CommitCutter, CutAt, FaultProxy, PostgresServer, Release};

use super::{Driver, Stage, Where, claim, everywhere, transactions};
use crate::place::{POOLER, Raw, clock, migrated, options};

everywhere! {
    a_commit_that_is_cut_is_settled
    a_session_that_is_ended_under_its_handler_runs_again
    a_commit_that_never_arrives_is_settled
    connections_that_broke_in_the_pool_are_passed_over
}

const DRIVERS: [Driver; 2] = [Driver::TokioPostgres, Driver::Sqlx];

/// A stage whose transactions go through a cutter.
async fn cut_stage(driver: Driver, place: Where) -> (Stage, CommitCutter) {
    let database = migrated(place.server()).await;
    let target = if place == Where::Pooled { POOLER.address() } else { place.server().address() };
    let cutter = CommitCutter::start(target).await;
    let direct = place.server().url(&database);
    let stage = Stage::at(driver, &cutter.url(&database), &direct, 5, TransactionOptions::default()).await;
    (stage, cutter)
}

/// The record that is read back by its token says how it ended.
async fn a_commit_that_is_cut_is_settled(driver: Driver, place: Where) {
    let (stage, cutter) = cut_stage(driver, place).await;
    for statement in ["COMMIT", "1 / count(*)", "RELEASE SAVEPOINT"] {
        for at in [CutAt::BeforeCommit, CutAt::AfterCommit] {
            let key = format!("{statement} {at:?}");
            let claim = claim(&key.replace(' ', "-"));
            let key = claim.identity.key.as_str();
            let (_, mut running) = stage.open(&claim).await;
            running.pay(key).await;
            let cuts = cutter.cuts();
            cutter.cut_every(1, statement, at);
            let closed = running.commit().await;
            cutter.heal();
            assert_eq!(cutter.cuts(), cuts + 1, "{key}");
            if statement == "COMMIT" && at == CutAt::AfterCommit {
                assert!(matches!(closed, Ok(Closed::Recorded { .. })), "{key}: {closed:?}");
            } else {
                assert!(matches!(closed, Ok(Closed::Again)), "{key}: {closed:?}");
                assert_eq!((stage.state(&claim).await, stage.torn().await), (None, 0), "{key}");
                let mut again = stage.open_soon(&claim).await;
                again.pay(key).await;
                assert!(matches!(again.commit().await, Ok(Closed::Recorded { .. })), "{key}");
            }
            assert_eq!((stage.state(&claim).await, stage.torn().await), (Some(State::Completed), 0), "{key}");
        }
    }
}

/// The control: a variant that commits the rows by themselves is caught by the same invariant.
#[tokio::test]
async fn rows_that_are_committed_apart_are_noticed() {
    for driver in DRIVERS {
        let (stage, cutter) = cut_stage(driver, Where::Old).await;
        let claim = claim("order");
        let (_, running) = stage.open(&claim).await;
        stage.raw.client.batch_execute("INSERT INTO ledger (key) VALUES ('order')").await.expect("a row of its own");
        cutter.cut_every(1, "COMMIT", CutAt::BeforeCommit);
        let closed = running.commit().await;
        assert!(matches!(closed, Ok(Closed::Again)), "{closed:?}");
        assert_eq!(stage.torn().await, 1);
    }
}

const END: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND state = 'idle in transaction'";

async fn a_session_that_is_ended_under_its_handler_runs_again(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    for ending in [
        Ending::Commit(samples::completed("done")),
        Ending::CommitRecord(samples::completed("declined")),
        Ending::RollBack,
    ] {
        let rolls_back = matches!(ending, Ending::RollBack);
        let claim = claim("order");
        let mut running = stage.open_soon(&claim).await;
        running.pay("order").await;
        stage.raw.client.batch_execute(END).await.expect("ended");
        running.handle.run("SELECT 1").await.expect_err("it is gone");
        match running.end(ending).await {
            Ok(Closed::RolledBack) if rolls_back => {}
            Ok(Closed::Again) if !rolls_back => {}
            other => panic!("{other:?}"),
        }
        assert_eq!((stage.state(&claim).await, stage.rows().await), (None, 0));
    }
}

/// The connection is there, and nothing gets through any more: the session is ended from aside, and then it is known.
async fn a_commit_that_never_arrives_is_settled(driver: Driver, place: Where) {
    let database = migrated(place.server()).await;
    let target = if place == Where::Pooled { POOLER.address() } else { place.server().address() };
    let proxy = FaultProxy::start(target).await;
    let direct = place.server().url(&database);
    let mut hurried = options(&direct).with_clock(clock());
    hurried.patience = Duration::from_secs(1);
    let store = PostgresStore::open(hurried).await.expect("opens");
    let url = PostgresServer::url_by(proxy.address(), &database);
    let raw = Raw::connect_to(&direct).await;
    raw.client.batch_execute("CREATE TABLE ledger (key TEXT NOT NULL)").await.expect("a table");
    let transactions =
        transactions(driver, &store, &url, 2, TransactionOptions::default()).await.expect("transactions");
    let stage = Stage { driver, url: url.clone(), store: store.into(), transactions, raw };
    let claim = claim("order");
    let (_, mut running) = stage.open(&claim).await;
    running.pay("order").await;
    proxy.blackhole();
    let closed = running.commit().await;
    assert!(matches!(closed, Ok(Closed::Again)), "{closed:?}");
    assert_eq!((stage.state(&claim).await, stage.rows().await), (None, 0));
}

async fn connections_that_broke_in_the_pool_are_passed_over(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let (one, two) = (stage.open(&claim("one")).await.1, stage.open(&claim("two")).await.1);
    for running in [one, two] {
        assert!(matches!(running.end(Ending::RollBack).await, Ok(Closed::RolledBack)));
    }
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'idle'";
    stage.raw.client.batch_execute(end).await.expect("ended");
    let mut running = stage.open_soon(&claim("order")).await;
    running.pay("order").await;
    assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
}

/// A server that crashes under the handler rolls back; one that doesn't come back leaves it open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_has_rolled_back() {
    let server = PostgresServer::start(Release::V15).expect("PostgreSQL 15 starts");
    for driver in DRIVERS {
        let url = server.url(&migrated(&server).await);
        let mut hurried = options(&url).with_clock(clock());
        hurried.patience = Duration::from_secs(5);
        let store = PostgresStore::open(hurried).await.expect("opens");
        let transactions =
            transactions(driver, &store, &url, 2, TransactionOptions::default()).await.expect("transactions");
        let raw = Raw::connect_to(&url).await;
        raw.client.batch_execute("CREATE TABLE ledger (key TEXT NOT NULL)").await.expect("a table");
        let stage = Stage { driver, url: url.clone(), store: store.into(), transactions, raw };
        let claim = claim("order");
        let (_, mut running) = stage.open(&claim).await;
        running.pay("order").await;
        tokio::task::block_in_place(|| server.crash()).expect("crashed, and back");
        let closed = running.commit().await;
        assert!(matches!(closed, Ok(Closed::Again)), "{closed:?}");
        let raw = Raw::connect_to(&url).await;
        let stage = Stage { raw, ..stage };
        assert_eq!((stage.state(&claim).await, stage.rows().await), (None, 0));
        let mut running = stage.open_soon(&claim).await;
        running.pay("order").await;
        assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_settled_is_told_as_such() {
    let server = PostgresServer::start(Release::V15).expect("PostgreSQL 15 starts");
    for driver in DRIVERS {
        let url = server.url(&migrated(&server).await);
        let mut hurried = options(&url).with_clock(clock());
        hurried.patience = Duration::from_millis(300);
        let store = PostgresStore::open(hurried).await.expect("opens");
        let transactions =
            transactions(driver, &store, &url, 2, TransactionOptions::default()).await.expect("transactions");
        let raw = Raw::connect_to(&url).await;
        let stage = Stage { driver, url: url.clone(), store: store.into(), transactions, raw };
        let (_, running) = stage.open(&claim("order")).await;
        tokio::task::block_in_place(|| server.kill()).expect("crashed");
        let closed = running.commit().await;
        assert!(matches!(closed, Err(StoreError::MayHaveBeenApplied(_))), "{closed:?}");
        tokio::task::block_in_place(|| server.restart()).expect("back");
    }
}
