//! Handlers that do what they shouldn't: found out, or harmless.

use oncekey_core::State;
use oncekey_store::{Begun, Closed, Ending, StoreError};
use oncekey_store_test::samples;

use super::{Driver, Handle, Stage, Where, claim, everywhere, extensions, told};

everywhere! {
    an_error_that_is_passed_over_is_never_committed
    a_handler_that_ends_the_transaction_is_found_out
    a_handle_that_is_kept_gets_errors
    settings_of_the_handler_do_no_harm
}

/// Its answer is not given: none of its rows is there.
async fn an_error_that_is_passed_over_is_never_committed(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let claim = claim("order");
    let (_, mut running) = stage.open(&claim).await;
    running.pay("order").await;
    running.handle.run("SELECT 1 / 0").await.expect_err("refused");
    let closed = running.commit().await;
    assert!(matches!(closed, Err(StoreError::NotApplied(_))), "{closed:?}");
    assert_eq!((stage.state(&claim).await, stage.rows().await), (None, 0));
    // The connection is good for the next.
    let (_, running) = stage.open(&claim).await;
    assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
}

/// What it did then can't be told: the record says so, whatever it answered, and nothing runs again.
async fn a_handler_that_ends_the_transaction_is_found_out(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    for (n, sql) in ["COMMIT", "ROLLBACK", "COMMIT; BEGIN", "ROLLBACK; BEGIN"].into_iter().enumerate() {
        for (m, ending) in [
            Ending::Commit(samples::completed("done")),
            Ending::CommitRecord(samples::completed("declined")),
            Ending::RollBack,
        ]
        .into_iter()
        .enumerate()
        {
            let mine = claim(&format!("{n}-{m}"));
            let (_, mut running) = stage.open(&mine).await;
            running.pay("order").await;
            running.handle.run(sql).await.expect("it is let do so");
            let closed = running.end(ending).await;
            assert!(matches!(closed, Err(StoreError::MayHaveBeenApplied(_))), "{sql} {m}: {closed:?}");
            assert_eq!(stage.state(&mine).await, Some(State::Unknown), "{sql} {m}");
            let begun = stage.transactions.begin(claim(&format!("{n}-{m}"))).await;
            assert!(matches!(begun, Ok(Begun::Held(_))), "{}", told(&begun));
        }
    }
}

/// With sqlx whoever keeps it keeps the transaction from being committed; with tokio-postgres its methods fail.
async fn a_handle_that_is_kept_gets_errors(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let mine = claim("order");
    let (_, mut running) = stage.open(&mine).await;
    running.pay("order").await;
    let super::Running { transaction, mut handle } = running;
    let extensions = extensions(&*transaction);
    let closed = transaction.end(Ending::Commit(samples::completed("done"))).await;
    match handle {
        Handle::TokioPostgres(_) => assert!(matches!(closed, Ok(Closed::Recorded { .. })), "{closed:?}"),
        Handle::Sqlx(_) => assert!(matches!(closed, Err(StoreError::NotApplied(_))), "{closed:?}"),
    }
    handle.run("INSERT INTO ledger VALUES ('late')").await.expect_err("it has ended");
    if let Handle::TokioPostgres(_) = handle {
        let late = oncekey_store_postgres::PgTransaction::of(&extensions).expect("the same");
        assert_eq!(late.batch_execute("SELECT 1").await.expect_err("ended").to_string(), ENDED);
    }
    assert_eq!(stage.torn().await, 0);
    drop(handle);
    let (_, mut running) = stage.open(&claim("next")).await;
    running.pay("next").await;
    assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
    assert_eq!(stage.torn().await, 0);
}

const ENDED: &str = "the transaction has ended: it lasts as long as its handler runs";

/// A role and a search path for its own rows, as programs for many tenants set them.
async fn settings_of_the_handler_do_no_harm(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let role = format!(
        "tenant_{}",
        stage.raw.count("SELECT oid::bigint FROM pg_database WHERE datname = current_database()").await
    );
    let sql = format!(
        "CREATE ROLE {role}; GRANT INSERT ON ledger TO {role}; CREATE SCHEMA elsewhere; \
                       CREATE TABLE elsewhere.idempotency_keys (id INT)"
    );
    stage.raw.client.batch_execute(&sql).await.expect("a role");
    for (n, scope) in ["LOCAL", "SESSION"].into_iter().enumerate() {
        let key = format!("order-{n}");
        let claim = claim(&key);
        let (_, mut running) = stage.open(&claim).await;
        let sql = format!("SET {scope} ROLE {role}; SET {scope} statement_timeout = '10min'");
        running.handle.run(&sql).await.expect("set");
        running.pay(&key).await;
        running.handle.run(&format!("SET {scope} search_path = elsewhere")).await.expect("set");
        let closed = running.commit().await;
        assert!(matches!(closed, Ok(Closed::Recorded { .. })), "{closed:?}");
        assert_eq!((stage.state(&claim).await, stage.torn().await), (Some(State::Completed), 0));
    }
    stage.raw.client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.expect("dropped");
}
