//! Servers that must not be used, and what a server's settings let the store promise.

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::{PromiseClass, RecordId};
use oncekey_store::{Claimed, Store, StoreError};
use oncekey_store_postgres::PostgresStore;
use oncekey_store_test::{granted, samples};
use oncekey_testkit::{PATIENCE, PostgresServer, Release};
use tokio::task::spawn_blocking;

use crate::place::{OLD, clock, migrated, options};

/// Of several hosts the one that takes writes is used; one that takes none is no store (G4).
#[tokio::test]
async fn a_server_that_takes_no_writes_is_passed_over() {
    let read_only = "default_transaction_read_only = on";
    let replica = spawn_blocking(move || PostgresServer::start_with(Release::V15, read_only, &[]));
    let replica = replica.await.expect("no panic").expect("starts");
    let database = migrated(&OLD).await;
    let both = format!("postgres://postgres@{},{}/{database}", replica.address(), OLD.address());
    let store = PostgresStore::open(options(&both).with_clock(clock())).await.expect("opens");
    granted(&store.claim(samples::claim(&samples::identity("acc-1", "k"), samples::owner())).await);

    let alone = PostgresStore::open(options(&replica.url("postgres"))).await.expect_err("refused");
    assert!(matches!(alone, StoreError::NotApplied(_)), "a failover may be under way: {alone:?}");
}

/// The class follows the server's settings while the store is open (G1, G4).
#[tokio::test]
async fn the_promise_follows_the_servers_settings() {
    let server = spawn_blocking(|| PostgresServer::start(Release::V15)).await.expect("no panic").expect("starts");
    let server = Arc::new(server);
    let database = migrated(&server).await;
    let promise = async || {
        let store = PostgresStore::open(options(&server.url(&database))).await.expect("opens");
        store.promise().await.expect("a promise")
    };
    let first = promise().await;
    assert_eq!(first.class, PromiseClass::BestEffort);
    assert!(first.shortfalls.len() == 1 && first.shortfalls[0].contains("`fsync`"), "{first:?}");

    server.execute(&database, "ALTER SYSTEM SET fsync = on").await.expect("set");
    let restarted = server.clone();
    spawn_blocking(move || restarted.crash()).await.expect("no panic").expect("restarted");
    assert_eq!(promise().await.class, PromiseClass::AtMostOnce);

    let off = format!("ALTER DATABASE {database} SET synchronous_commit = off");
    server.execute(&database, &off).await.expect("set");
    let weak = promise().await;
    assert_eq!(weak.class, PromiseClass::BestEffort);
    assert!(weak.shortfalls[0].contains("`synchronous_commit` is off"), "{weak:?}");
}

/// Someone ends a commit's wait for the synchronous standby: it is there, and on no standby. Nobody is told that it is granted
/// before it is replicated too, however often the claim is asked for again.
#[tokio::test]
async fn a_claim_that_is_on_no_standby_is_not_granted() {
    let server = spawn_blocking(|| PostgresServer::start(Release::V15)).await.expect("no panic").expect("starts");
    let database = migrated(&server).await;
    let mut options = options(&server.url(&database)).with_clock(clock());
    options.patience = Duration::from_secs(2);
    let store = PostgresStore::open(options).await.expect("opens");
    let require = "ALTER SYSTEM SET synchronous_standby_names = 'nobody'";
    server.execute(&database, require).await.expect("set");
    server.execute(&database, "SELECT pg_reload_conf()").await.expect("reloaded");

    let claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
    let cancel = "DO $$ BEGIN \
        WHILE NOT EXISTS (SELECT FROM pg_stat_activity \
            WHERE CASE WHEN wait_event = 'SyncRep' THEN pg_cancel_backend(pid) ELSE FALSE END) LOOP \
            PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$";
    let (answer, cancelled) = tokio::join!(store.claim(claim.clone()), server.execute(&database, cancel));
    cancelled.expect("a wait was ended");
    assert!(matches!(answer, Err(StoreError::MayHaveBeenApplied(_))), "{answer:?}");
    let seen = async {
        loop {
            if let Some(found) = store.read(claim.identity.id()).await.expect("read") {
                break found;
            }
        }
    };
    let there = tokio::time::timeout(PATIENCE, seen).await.expect("committed, and so seen by all");
    assert_eq!(there.record.token, claim.token, "who only looked would take it for granted");
    for _ in 0..2 {
        let again = store.claim(claim.clone()).await;
        assert!(matches!(again, Err(StoreError::MayHaveBeenApplied(_))), "{again:?}");
    }

    let relax = "ALTER SYSTEM RESET synchronous_standby_names";
    server.execute(&database, relax).await.expect("set");
    server.execute(&database, "SELECT pg_reload_conf()").await.expect("reloaded");
    let settled = async {
        loop {
            match store.claim(claim.clone()).await {
                Err(StoreError::MayHaveBeenApplied(_)) => {}
                answer => break answer,
            }
        }
    };
    granted(&tokio::time::timeout(PATIENCE, settled).await.expect("it settles"));
}

/// A server with a standby.
struct Pair {
    primary: Arc<PostgresServer>,
    standby: Arc<PostgresServer>,
    database: String,
}

impl Pair {
    async fn start(release: Release) -> Self {
        let primary = spawn_blocking(move || PostgresServer::start_with(release, "fsync = on", &[])).await;
        let primary = Arc::new(primary.expect("no panic").expect("starts"));
        let database = migrated(&primary).await;
        let of = primary.clone();
        let standby = spawn_blocking(move || of.standby("second")).await.expect("no panic").expect("streams");
        Self { primary, standby: Arc::new(standby), database }
    }

    /// A store that knows both hosts, the standby first.
    async fn open(&self) -> PostgresStore {
        let hosts = format!("{},{}", self.standby.address(), self.primary.address());
        let url = format!("postgres://postgres@{hosts}/{}", self.database);
        PostgresStore::open(options(&url).with_clock(clock())).await.expect("opens")
    }

    /// Waits until the store promises this.
    async fn promises(&self, store: &PostgresStore, class: PromiseClass) {
        let promised = async {
            while store.promise().await.expect("a promise").class != class {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, promised).await.expect("it promises that");
    }

    async fn blocking(server: &Arc<PostgresServer>, what: fn(&PostgresServer) -> std::io::Result<()>) {
        let server = server.clone();
        spawn_blocking(move || what(&server)).await.expect("no panic").expect("done");
    }
}

/// Grants thirty claims and gives their ids.
async fn thirty(store: &PostgresStore) -> Vec<RecordId> {
    let mut ids = Vec::new();
    for n in 0..30 {
        let claim = samples::claim(&samples::identity("acc-1", &format!("key-{n}")), samples::owner());
        granted(&store.claim(claim.clone()).await);
        ids.push(claim.identity.id());
    }
    ids
}

/// The server crashes and its synchronous standby takes over: the same store finds it, and every claim is there.
async fn failover_to_a_synchronous_standby(release: Release) {
    let pair = Pair::start(release).await;
    let store = pair.open().await;
    pair.promises(&store, PromiseClass::AtMostOnceUntilFailover).await;
    for sql in ["ALTER SYSTEM SET synchronous_standby_names = 'second'", "SELECT pg_reload_conf()"] {
        pair.primary.execute(&pair.database, sql).await.expect("set");
    }
    pair.promises(&store, PromiseClass::AtMostOnce).await;
    let ids = thirty(&store).await;
    Pair::blocking(&pair.primary, PostgresServer::kill).await;
    Pair::blocking(&pair.standby, PostgresServer::promote).await;
    assert_eq!(store.peek(&ids).await.expect("peeked").len(), 30);
    let again = samples::claim(&samples::identity("acc-1", "key-0"), samples::owner());
    let held = async {
        loop {
            match store.claim(again.clone()).await {
                // The writer's connection was to the server that is gone.
                Err(StoreError::MayHaveBeenApplied(_) | StoreError::NotApplied(_)) => {}
                answer => break answer,
            }
        }
    };
    held_by_another(&tokio::time::timeout(PATIENCE, held).await.expect("an answer"));
}

#[tokio::test]
async fn a_failover_to_a_synchronous_standby_loses_no_claim() {
    for release in [Release::V15, Release::V18] {
        failover_to_a_synchronous_standby(release).await;
    }
}

/// A real standby is no store, whether the URL asks for one that takes writes or not; beside its primary it is passed over (G4).
#[tokio::test]
async fn a_standby_is_never_used() {
    for release in [Release::V15, Release::V18] {
        let pair = Pair::start(release).await;
        for parameters in ["", "?target_session_attrs=read-write", "?target_session_attrs=primary"] {
            let url = |hosts: String| format!("postgres://postgres@{hosts}/{}{parameters}", pair.database);
            let alone = PostgresStore::open(options(&url(pair.standby.address().to_string()))).await;
            assert!(matches!(alone, Err(StoreError::NotApplied(_))), "{release:?} {parameters}: {alone:?}");
            let both = format!("{},{}", pair.standby.address(), pair.primary.address());
            let store = PostgresStore::open(options(&url(both)).with_clock(clock())).await.expect("opens");
            let key = format!("key-{}", parameters.len());
            granted(&store.claim(samples::claim(&samples::identity("acc-1", &key), samples::owner())).await);
        }
    }
}

fn held_by_another(answer: &Result<Claimed, StoreError>) {
    assert!(matches!(answer, Ok(Claimed::Held(_))), "{answer:?}");
}

/// The control: a standby that commits don't wait for, cut off when the claims were made, takes over without them. The class had
/// said so.
#[tokio::test]
async fn control_a_failover_to_an_asynchronous_standby_loses_claims() {
    for release in [Release::V15, Release::V18] {
        failover_to_an_asynchronous_standby(release).await;
    }
}

async fn failover_to_an_asynchronous_standby(release: Release) {
    let pair = Pair::start(release).await;
    let store = pair.open().await;
    pair.promises(&store, PromiseClass::AtMostOnceUntilFailover).await;
    Pair::blocking(&pair.standby, PostgresServer::stop).await;
    let ids = thirty(&store).await;
    Pair::blocking(&pair.primary, PostgresServer::kill).await;
    Pair::blocking(&pair.standby, PostgresServer::restart).await;
    Pair::blocking(&pair.standby, PostgresServer::promote).await;
    assert_eq!(store.peek(&ids).await.expect("peeked").len(), 0);
}
