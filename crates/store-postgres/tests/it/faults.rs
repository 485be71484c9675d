//! Cut connections, crashed servers, and what a caller is told of them.

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::{PromiseClass, State};
use oncekey_store::{Claim, Claimed, ManualClock, Replaces, Store, StoreError};
use oncekey_store_postgres::PostgresStore;
use oncekey_store_test::{granted, held, samples, written};
use oncekey_testkit::{Cut, FaultProxy, PostgresServer, Release};
use tokio::task::{JoinSet, spawn_blocking};

use crate::place::{OLD, Raw, clock, migrated, open, options};

/// A store that reaches its server through a proxy.
async fn behind(proxy: &FaultProxy, database: &str, patience: Duration) -> PostgresStore {
    let mut options = options(&PostgresServer::url_by(proxy.address(), database)).with_clock(clock());
    options.patience = patience;
    PostgresStore::open(options).await.expect("opens")
}

fn claim(key: &str) -> Claim {
    samples::claim(&samples::identity("acc-1", key), samples::owner())
}

/// The connection is cut while the commit is under way: the caller can't know, asks again with the same token and finds its own
/// claim (D2); another's claim stays out.
#[tokio::test]
async fn a_claim_whose_acknowledgement_is_lost_is_found_again() {
    let database = migrated(&OLD).await;
    let proxy = FaultProxy::start(OLD.address()).await;
    let store = behind(&proxy, &database, Duration::from_secs(10)).await;
    granted(&store.claim(claim("first")).await);
    let raw = Raw::connect(&database).await;

    // The claim arrives, and stands still before it is committed; then the way back is gone.
    raw.client.batch_execute("BEGIN; LOCK TABLE idempotency_keys IN SHARE MODE").await.expect("a table lock");
    let wanted = claim("k");
    let asking = store.claim(wanted.clone());
    let cutting = async {
        raw.until("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'idempotency_keys'::regclass", 1)
            .await;
        proxy.cut(Cut::Rst);
        // Only what the server itself sees of the cut could end the statement: it doesn't look while it waits.
        raw.client.batch_execute("COMMIT").await.expect("let go");
    };
    let (answer, ()) = tokio::join!(asking, cutting);
    assert!(matches!(answer, Err(StoreError::MayHaveBeenApplied(_))), "{answer:?}");
    raw.until("SELECT count(*) FROM idempotency_keys WHERE idempotency_key = 'k'", 1).await;
    granted(&store.claim(wanted.clone()).await);
    assert!(matches!(store.claim(claim("k")).await, Ok(Claimed::Held(_))));
    written(&store.record(wanted.identity.id(), wanted.token, samples::completed("x")).await);
}

/// The same for an outcome: written once, told as written when asked again (D3).
#[tokio::test]
async fn an_outcome_whose_acknowledgement_is_lost_is_found_again() {
    let database = migrated(&OLD).await;
    let proxy = FaultProxy::start(OLD.address()).await;
    let store = behind(&proxy, &database, Duration::from_secs(10)).await;
    let (first, mine) = (claim("first"), claim("k"));
    for claim in [&first, &mine] {
        granted(&store.claim(claim.clone()).await);
    }
    // What stands still later is the writing, not its preparation.
    written(&store.record(first.identity.id(), first.token, samples::completed("x")).await);
    let raw = Raw::connect(&database).await;
    raw.client.batch_execute("BEGIN; LOCK TABLE idempotency_keys IN SHARE MODE").await.expect("a table lock");
    let cutting = async {
        raw.until("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'idempotency_keys'::regclass", 1)
            .await;
        proxy.cut(Cut::Rst);
        raw.client.batch_execute("COMMIT").await.expect("let go");
    };
    let recording = store.record(mine.identity.id(), mine.token, samples::completed("x"));
    // The lock timeout is longer than it takes to let go.
    let (answer, ()) = tokio::join!(recording, cutting);
    assert!(matches!(answer, Err(StoreError::MayHaveBeenApplied(_))), "{answer:?}");
    let again = store.record(mine.identity.id(), mine.token, samples::completed("x")).await;
    written(&again);
    let found = store.read(mine.identity.id()).await.expect("read").expect("there");
    assert_eq!(found.response, Some(samples::response("x")));
}

/// A server that takes everything and answers nothing costs each caller its patience, not eternity; and on a new way all goes on.
#[tokio::test]
async fn a_server_that_falls_silent_is_given_up() {
    let database = migrated(&OLD).await;
    let proxy = FaultProxy::start(OLD.address()).await;
    let store = behind(&proxy, &database, Duration::from_secs(2)).await;
    granted(&store.claim(claim("first")).await);
    store.read(claim("first").identity.id()).await.expect("a reading");
    proxy.blackhole();
    let answer = store.claim(claim("k")).await;
    assert!(matches!(answer, Err(StoreError::MayHaveBeenApplied(_))), "{answer:?}");
    let answer = store.read(claim("k").identity.id()).await;
    assert!(matches!(answer, Err(StoreError::NotApplied(_))), "{answer:?}");
    let answer = store.claim(claim("other")).await;
    assert!(matches!(answer, Err(StoreError::NotApplied(_))), "not even a connection: {answer:?}");
    proxy.release();
    granted(&store.claim(claim("later")).await);
    assert!(store.read(claim("later").identity.id()).await.expect("a reading").is_some());
}

/// No server: nothing was applied, and it says so at once; once it is there, the same store works on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_lose_nothing_that_was_acknowledged() {
    let server = spawn_blocking(|| PostgresServer::start(Release::V15)).await.expect("no panic").expect("starts");
    let server = Arc::new(server);
    let database = migrated(&server).await;
    let store = PostgresStore::open(options(&server.url(&database)).with_clock(clock())).await.expect("opens");
    let store = Arc::new(store);
    let mut clients = JoinSet::new();
    for client in 0..8 {
        let store = store.clone();
        clients.spawn(async move {
            let mut granted = Vec::new();
            for n in 0..200 {
                let claim = claim(&format!("{client}-{n}"));
                let mut answer = store.claim(claim.clone()).await;
                // Whatever happened: the same token again, until there is an answer.
                while let Err(StoreError::NotApplied(_) | StoreError::MayHaveBeenApplied(_)) = answer {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    answer = store.claim(claim.clone()).await;
                }
                assert!(matches!(answer, Ok(Claimed::Granted { attempt: 1, .. })), "{answer:?}");
                granted.push(claim);
            }
            granted
        });
    }
    for _ in 0..3 {
        let server = server.clone();
        spawn_blocking(move || server.crash()).await.expect("no panic").expect("crashed and back");
    }
    for claim in clients.join_all().await.into_iter().flatten() {
        let found = loop {
            match store.read(claim.identity.id()).await {
                Err(StoreError::NotApplied(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
                found => break found.expect("a reading").expect("an acknowledged claim is there"),
            }
        };
        assert_eq!(found.record.token, claim.token);
    }
    let stopped = server.clone();
    spawn_blocking(move || stopped.stop()).await.expect("no panic").expect("stopped");
    // What was on its way when the server ended can't be told; then there is no connection to be had.
    let _ = store.claim(claim("ending")).await;
    assert!(matches!(store.claim(claim("k")).await, Err(StoreError::NotApplied(_))));
    assert!(matches!(store.read(claim("k").identity.id()).await, Err(StoreError::NotApplied(_))));
    let restarted = server.clone();
    spawn_blocking(move || restarted.restart()).await.expect("no panic").expect("back");
    granted(&store.claim(claim("k")).await);
}

/// Fifty claims are granted and the server crashes at once: all are there afterwards. The negative control shows that the crash
/// bites: where commits don't wait for the log, some are gone, and the store had said so (G1).
#[tokio::test]
async fn a_crash_takes_only_what_the_promise_gave_up() {
    for (setting, class) in [("on", PromiseClass::AtMostOnce), ("off", PromiseClass::BestEffort)] {
        let settings = format!("fsync = on\nwal_writer_delay = 10s\nsynchronous_commit = {setting}\n");
        let server = spawn_blocking(move || PostgresServer::start_with(Release::V15, &settings, &[]));
        let server = Arc::new(server.await.expect("no panic").expect("starts"));
        let database = migrated(&server).await;
        server.execute(&database, "CHECKPOINT").await.expect("the tables are on disk");
        let store = PostgresStore::open(options(&server.url(&database)).with_clock(clock())).await.expect("opens");
        assert_eq!(store.promise().await.expect("a promise").class, class);
        for n in 0..50 {
            granted(&store.claim(claim(&format!("key-{n}"))).await);
        }
        let crashed = server.clone();
        spawn_blocking(move || crashed.crash()).await.expect("no panic").expect("crashed and back");
        let ids: Vec<_> = (0..50).map(|n| claim(&format!("key-{n}")).identity.id()).collect();
        let left = store.peek(&ids).await.expect("peeked").len();
        assert_eq!(left == 50, setting == "on", "synchronous_commit = {setting}: {left} of 50 are left");
    }
}

/// What waiting doesn't help is told from what it does.
#[tokio::test]
async fn what_is_misconfigured_is_told_as_such() {
    let database = migrated(&OLD).await;
    let sql = format!("CREATE ROLE {database}_guest LOGIN; REVOKE ALL ON SCHEMA public FROM {database}_guest");
    OLD.execute(&database, &sql).await.expect("a role");
    let misconfigured = [
        OLD.url("no_such_database"),
        OLD.url(&database).replace("postgres@", &format!("{database}_nobody@")),
        // It may connect, and read nothing.
        OLD.url(&database).replace("postgres@", &format!("{database}_guest@")),
    ];
    for url in misconfigured {
        let answer = PostgresStore::open(options(&url)).await;
        assert!(matches!(answer, Err(StoreError::Misconfigured(_))), "{url}: {answer:?}");
    }
    let nobody = oncekey_testkit::free_address().expect("an address");
    let answer = PostgresStore::open(options(&PostgresServer::url_by(nobody, &database))).await;
    assert!(matches!(answer, Err(StoreError::NotApplied(_))), "{answer:?}");
}

/// A role that is refused for a while (its password is being changed, say) costs its calls, but nothing is given up: whoever
/// repeats an outcome gets it recorded in the end (D3).
#[tokio::test]
async fn a_role_that_is_refused_for_a_while_is_no_lasting_fault() {
    let database = migrated(&OLD).await;
    let (role, grant) = (format!("{database}_app"), "GRANT ALL ON ALL TABLES IN SCHEMA public TO");
    let made =
        format!("CREATE ROLE {role} LOGIN; {grant} {role}; GRANT USAGE ON SEQUENCE idempotency_claims TO {role}");
    OLD.execute(&database, &made).await.expect("a role");
    let url = OLD.url(&database).replace("postgres@", &format!("{role}@"));
    let store = PostgresStore::open(options(&url).with_clock(clock())).await.expect("opens");
    let mine = claim("k");
    granted(&store.claim(mine.clone()).await);
    let cut = format!(
        "ALTER ROLE {role} NOLOGIN; \
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'"
    );
    OLD.execute(&database, &cut).await.expect("locked out");
    // The first call may find its connection broken in its hands.
    let _ = store.record(mine.identity.id(), mine.token, samples::completed("x")).await;
    let refused = store.record(mine.identity.id(), mine.token, samples::completed("x")).await;
    assert!(matches!(refused, Err(StoreError::NotApplied(_))), "{refused:?}");
    let opened = PostgresStore::open(options(&url)).await;
    assert!(matches!(opened, Err(StoreError::Misconfigured(_))), "who opens it is told: {opened:?}");
    OLD.execute(&database, &format!("ALTER ROLE {role} LOGIN")).await.expect("let in again");
    written(&store.record(mine.identity.id(), mine.token, samples::completed("x")).await);
}

/// Flipped bits are never taken for an absent record, and keep neither a sweep nor a purge from their work.
#[tokio::test]
async fn a_damaged_record_is_corrupt_and_can_be_purged() {
    let database = migrated(&OLD).await;
    let store = PostgresStore::open(options(&OLD.url(&database)).with_clock(clock())).await.expect("opens");
    let mine = claim("k");
    granted(&store.claim(mine.clone()).await);
    written(&store.record(mine.identity.id(), mine.token, samples::completed("x")).await);
    for damage in [
        "response_headers = '\\x00'",
        "account_id = 'acc-2'",
        "response_status = 999",
        "recipe = 'v9'",
        "attempts = -1",
    ] {
        let before = "CREATE TABLE kept AS TABLE idempotency_keys";
        OLD.execute(&database, before).await.expect("kept");
        OLD.execute(&database, &format!("UPDATE idempotency_keys SET {damage}")).await.expect("damaged");
        for answer in [store.read(mine.identity.id()).await.map(drop), store.claim(claim("k")).await.map(drop)] {
            assert!(matches!(answer, Err(StoreError::Corrupt(_))), "{damage}: {answer:?}");
        }
        let back = "TRUNCATE idempotency_keys; INSERT INTO idempotency_keys TABLE kept; DROP TABLE kept";
        OLD.execute(&database, back).await.expect("put back");
        assert!(matches!(store.claim(claim("k")).await, Ok(Claimed::Held(_))), "{damage}");
    }
    OLD.execute(&database, "UPDATE idempotency_keys SET recipe = 'v9'").await.expect("damaged");
    assert_eq!(store.purge(mine.identity.id()).await.expect("purged"), oncekey_store::Purged::Done);
    granted(&store.claim(claim("k")).await);
}

/// A claimant saw a lapsed claim; while it takes it over, the owner comes back. Judged by what the takeover's snapshot holds, both
/// would execute: the owner would find its claim valid again and its token in place (E1, E10).
#[tokio::test]
async fn a_takeover_waits_for_a_heartbeat_that_is_under_way() {
    let (database, clock) = (migrated(&OLD).await, clock());
    let store = open(&OLD.url(&database), Arc::<ManualClock>::clone(&clock)).await;
    let owned = claim("k");
    store.heartbeat(owned.owner, Duration::from_secs(30)).await.expect("a heartbeat");
    granted(&store.claim(owned.clone()).await);
    clock.advance(Duration::from_secs(31));

    let raw = Raw::connect(&database).await;
    raw.client
        .batch_execute("BEGIN; UPDATE idempotency_nodes SET alive_until = 'infinity'")
        .await
        .expect("a heartbeat that isn't committed yet");
    let seen = Replaces { token: owned.token, state: State::Processing, expired: false };
    let taking = store.claim(samples::retry(&owned.identity, samples::owner(), seen));
    let beating = async {
        let watch = Raw::connect(&database).await;
        let waits =
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
        watch.until(waits, 1).await;
        raw.client.batch_execute("COMMIT").await.expect("the heartbeat is there");
    };
    let (answer, ()) = tokio::join!(taking, beating);
    assert!(held(answer).owner_alive);
    written(&store.record(owned.identity.id(), owned.token, samples::completed("x")).await);
}
