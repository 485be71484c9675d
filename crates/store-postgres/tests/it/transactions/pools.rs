//! Pools: who waits for a connection, what is done with one afterwards, and which pools are refused.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, Pool};
use oncekey_store::{Begun, Closed, Ending, Store, StoreError};
use oncekey_store_postgres::{PgTransactions, TransactionOptions};
use oncekey_store_test::{START, samples};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use super::{Driver, Running, Stage, Where, claim, everywhere, told, transactions};
use crate::place::{OLD, clock, migrated, open};

everywhere! {
    a_wait_for_a_connection_is_bounded
    duplicates_of_one_request_hold_up_nobody
    a_pool_elsewhere_is_refused
}

async fn a_wait_for_a_connection_is_bounded(driver: Driver, place: Where) {
    let options = TransactionOptions { wait: Duration::from_millis(50), ..TransactionOptions::default() };
    let stage = Stage::with(driver, place, 1, options).await;
    let mut running = stage.open_soon(&claim("one")).await;
    let begun = stage.transactions.begin(claim("two")).await;
    assert!(matches!(begun, Err(StoreError::NotApplied(_))), "{}", told(&begun));
    running.pay("one").await;
    assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
    let mut running = loop {
        // The pool may take a moment to have it back.
        match stage.transactions.begin(claim("two")).await {
            Ok(Begun::Open { transaction, .. }) => break Running::new(driver, transaction),
            Err(StoreError::NotApplied(_)) => {}
            other => panic!("{}", told(&other)),
        }
    };
    running.pay("two").await;
    assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
    assert_eq!(stage.torn().await, 0);
}

/// 500 duplicates of one request, and 20 of others, on five connections: each other one goes through while the first runs.
async fn duplicates_of_one_request_hold_up_nobody(driver: Driver, place: Where) {
    let options = TransactionOptions { wait: Duration::from_mins(1), ..TransactionOptions::default() };
    let stage = Arc::new(Stage::with(driver, place, 5, options).await);
    let (_, mut slow) = stage.open(&claim("slow")).await;
    slow.pay("slow").await;
    let (mut duplicates, mut others) = (JoinSet::new(), JoinSet::new());
    for n in 0..500 {
        let transactions = Arc::clone(&stage.transactions);
        duplicates.spawn(async move { told(&transactions.begin(claim("slow")).await) });
        if n % 25 == 0 {
            let stage = Arc::clone(&stage);
            others.spawn(async move {
                let key = format!("other-{n}");
                let (_, mut running) = stage.open(&claim(&key)).await;
                running.pay(&key).await;
                running.commit().await
            });
        }
    }
    for closed in others.join_all().await {
        assert!(matches!(closed, Ok(Closed::Recorded { .. })), "{closed:?}");
    }
    assert!(duplicates.join_all().await.iter().all(|told| told == "busy"));
    assert!(matches!(slow.commit().await, Ok(Closed::Recorded { .. })));
    assert_eq!((stage.rows().await, stage.torn().await), (21, 0));
}

/// Another database, another schema, a role without rights: each is told at once, and what is wrong.
async fn a_pool_elsewhere_is_refused(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let refusal =
        async |url: &str| match transactions(driver, &stage.store, url, 2, TransactionOptions::default()).await {
            Err(StoreError::Misconfigured(error)) => error.to_string(),
            Err(error) => panic!("{error:?}"),
            Ok(_) => panic!("refused"),
        };
    let other = migrated(place.server()).await;
    assert!(refusal(&place.url(&other)).await.contains("other tables"));
    let empty = place.server().database().await.expect("a database");
    assert!(refusal(&place.url(&empty)).await.contains("don't see oncekey's tables"));
    let role = format!(
        "bare_{}",
        stage.raw.count("SELECT oid::bigint FROM pg_database WHERE datname = current_database()").await
    );
    stage
        .raw
        .client
        .batch_execute(&format!("CREATE ROLE {role} LOGIN; GRANT SELECT ON idempotency_nodes TO {role}"))
        .await
        .expect("a role");
    // PgBouncer knows one user only.
    if place != Where::Pooled {
        assert!(refusal(&stage.url.replace("postgres@", &format!("{role}@"))).await.contains("may not write"));
    }
    stage.raw.client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.expect("dropped");
}

/// Another node's sweep comes between the mark that is put into the store's database and the look for it.
#[tokio::test]
async fn a_pool_is_the_stores_own_whoever_sweeps() {
    let database = migrated(&OLD).await;
    let store = Arc::new(open(&OLD.url(&database), clock()).await);
    let sweeping = Arc::clone(&store);
    let sweep = Hook::async_fn(move |_, _| {
        let store = Arc::clone(&sweeping);
        Box::pin(async move {
            store.sweep(START, 100).await.map_err(|error| HookError::message(error.to_string()))?;
            Ok(())
        })
    });
    let manager = Manager::new(OLD.url(&database).parse().expect("a URL"), NoTls);
    let pool = Pool::builder(manager).post_create(sweep).build().expect("a pool");
    let made = PgTransactions::with_pool(&store, pool, TransactionOptions::default()).await;
    assert!(made.is_ok(), "{:?}", made.err());
}

/// What a handler sets for its session is gone with it, on the store's own pool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_own_pool_gives_connections_as_new() {
    let stage = Stage::new(Driver::TokioPostgres, Where::Old).await;
    let own = PgTransactions::open(&stage.store, 1, TransactionOptions::default()).await.expect("a pool");
    let stage = Stage { transactions: Arc::new(own), ..stage };
    let mine = "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    for key in ["one", "two"] {
        let (_, running) = stage.open(&claim(key)).await;
        let super::Handle::TokioPostgres(handle) = &running.handle else { panic!("tokio-postgres") };
        assert_eq!(handle.query_one(mine, &[]).await.expect("a name").get::<_, &str>(0), "oncekey");
        handle.batch_execute("SET application_name = 'dirty'; CREATE TEMP TABLE left_behind ()").await.expect("set");
        assert!(matches!(running.end(Ending::Commit(samples::completed("done"))).await, Ok(Closed::Recorded { .. })));
    }
}
