//! Handlers that do what they shouldn't: found out, or harmless.

use oncekey_core::State;
use oncekey_store::{Begun, Closed, Ending, Replaces, StoreError};
use oncekey_store_postgres::TransactionOptions;
use oncekey_store_test::samples;
use sqlx::Acquire;
use tokio::task::JoinSet;

use super::{Driver, Handle, Stage, Where, claim, everywhere, extensions, told};

everywhere! {
    an_error_that_is_passed_over_is_never_committed
    a_handler_that_ends_the_transaction_is_found_out
    a_handle_that_is_kept_gets_errors
    settings_of_the_handler_do_no_harm
    what_a_handler_ended_is_recorded_once_it_can_be
    a_commit_keeps_the_promise_that_the_pool_began_with
    a_constraint_that_divides_by_zero_is_no_record_in_the_way
    a_handler_that_forgets_prepared_statements_runs_again_once
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

/// What was prepared for its record is gone with them: nothing is committed, and from then on nothing is prepared.
async fn a_handler_that_forgets_prepared_statements_runs_again_once(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let prepares = driver == Driver::TokioPostgres && place != Where::Pooled;
    for runs_again in [prepares, false] {
        let (_, mut running) = stage.open(&claim("order")).await;
        if let (Handle::TokioPostgres(handle), true) = (&running.handle, runs_again) {
            let count = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%INSERT INTO idempotency' || '_keys%'";
            assert_eq!(handle.query_one(count, &[]).await.expect("a count").get::<_, i64>(0), 1);
        }
        running.pay("order").await;
        running.handle.run("DEALLOCATE ALL").await.expect("it is let do so");
        match running.commit().await {
            Ok(Closed::Again) if runs_again => assert_eq!(stage.rows().await, 0),
            Ok(Closed::Recorded { .. }) if !runs_again => break,
            closed => panic!("{closed:?}"),
        }
    }
    assert_eq!((stage.rows().await, stage.torn().await), (1, 0));
}

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

/// The record that forbids another run is written as soon as the database lets it be.
async fn what_a_handler_ended_is_recorded_once_it_can_be(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let sql = "CREATE SEQUENCE tries; \
         CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN IF nextval('tries') < 3 THEN RAISE 'not yet'; END IF; RETURN NEW; END $$; \
         CREATE TRIGGER refuse BEFORE INSERT ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION refuse()";
    stage.raw.client.batch_execute(sql).await.expect("a trigger");
    let mine = claim("order");
    let (_, mut running) = stage.open(&mine).await;
    running.pay("order").await;
    running.handle.run("COMMIT").await.expect("it is let do so");
    let closed = running.end(Ending::RollBack).await;
    assert!(matches!(closed, Err(StoreError::MayHaveBeenApplied(_))), "{closed:?}");
    assert_eq!((stage.state(&mine).await, stage.rows().await), (Some(State::Unknown), 1));
}

/// A handler that doesn't care for its rows can't do so for the record.
async fn a_commit_keeps_the_promise_that_the_pool_began_with(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let sql = "CREATE TABLE seen (said TEXT); \
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION note()";
    stage.raw.client.batch_execute(sql).await.expect("a trigger");
    for scope in ["LOCAL", "SESSION"] {
        let (_, mut running) = stage.open(&claim(scope)).await;
        running.handle.run(&format!("SET {scope} synchronous_commit = off")).await.expect("set");
        running.pay(scope).await;
        assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
    }
    assert_eq!(stage.raw.count("SELECT count(*) FROM seen WHERE said = 'on'").await, 2);
}

/// It is the handler's failure, and told once: not taken for another's record, for which the handler would run again.
async fn a_constraint_that_divides_by_zero_is_no_record_in_the_way(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let sql = "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN 1 / 0; END $$; \
         CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION fail()";
    stage.raw.client.batch_execute(sql).await.expect("a trigger");
    let first = claim("order");
    let (_, running) = stage.open(&first).await;
    assert!(matches!(running.end(Ending::Commit(samples::failed())).await, Ok(Closed::Recorded { .. })));
    let seen = Replaces { token: first.token, state: State::Failed, expired: false };
    let (attempt, mut running) = stage.open(&samples::retry(&first.identity, first.owner, seen)).await;
    running.pay("order").await;
    let closed = running.commit().await;
    assert!(matches!(closed, Err(StoreError::NotApplied(_))), "attempt {attempt}: {closed:?}");
    assert_eq!((stage.state(&first).await, stage.rows().await), (Some(State::Failed), 0));
}

/// sqlx counts savepoints; one that is never dropped would have it take the next COMMIT for the savepoint's.
#[tokio::test]
async fn a_savepoint_that_is_forgotten_is_undone() {
    let stage = Stage::with(Driver::Sqlx, Where::Old, 1, TransactionOptions::default()).await;
    for (n, ending) in [
        Ending::Commit(samples::completed("done")),
        Ending::CommitRecord(samples::completed("declined")),
        Ending::RollBack,
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("order-{n}");
        let (_, mut running) = stage.open(&claim(&key)).await;
        let Handle::Sqlx(tx) = &mut running.handle else { panic!("sqlx") };
        for _ in 0..2 {
            let mut forgotten = tx.begin().await.expect("a savepoint");
            sqlx::query("INSERT INTO ledger VALUES ('forgotten')").execute(&mut *forgotten).await.expect("a row");
            std::mem::forget(forgotten);
        }
        let rolls_back = matches!(ending, Ending::RollBack);
        let closed = running.end(ending).await;
        let wanted = if rolls_back { "RolledBack" } else { "Recorded" };
        assert!(format!("{closed:?}").starts_with(&format!("Ok({wanted}")), "{n}: {closed:?}");
        assert_eq!((stage.rows().await, stage.state(&claim(&key)).await.is_some()), (0, !rolls_back));
    }
    // The one connection is as good as new.
    let (_, mut running) = stage.open(&claim("next")).await;
    running.pay("next").await;
    assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
    assert_eq!(stage.rows().await, 1);
}

/// sqlx rolls back the whole transaction when a savepoint can't be set, or nobody waits for that any more. Nothing may be
/// done after it, which would commit by itself, and nothing is unknown.
#[tokio::test]
async fn a_savepoint_that_is_not_set_costs_the_transaction_and_no_more() {
    let stage = Stage::with(Driver::Sqlx, Where::Old, 1, TransactionOptions::default()).await;
    for fails in [true, false] {
        for goes_on in [true, false] {
            for rolls_back in [true, false] {
                let key = format!("{fails}-{goes_on}-{rolls_back}");
                let (_, mut running) = stage.open(&claim(&key)).await;
                running.pay(&key).await;
                if fails {
                    running.handle.run("SELECT 1 / 0").await.expect_err("refused");
                }
                let Handle::Sqlx(tx) = &mut running.handle else { panic!("sqlx") };
                if fails {
                    tx.begin().await.map(drop).expect_err("the transaction has failed");
                } else {
                    // Given up before it has its answer; now and then that is there at once.
                    while futures_util::FutureExt::now_or_never(tx.begin()).is_some() {}
                }
                if goes_on {
                    running.handle.run("INSERT INTO ledger VALUES ('late')").await.expect_err("it has ended");
                    let Handle::Sqlx(tx) = &mut running.handle else { panic!("sqlx") };
                    tx.begin().await.map(drop).expect_err("it has ended");
                }
                let ending = if rolls_back { Ending::RollBack } else { Ending::Commit(samples::completed("done")) };
                let closed = running.end(ending).await;
                if rolls_back {
                    assert!(matches!(closed, Ok(Closed::RolledBack)), "{key}: {closed:?}");
                } else {
                    assert!(matches!(closed, Err(StoreError::NotApplied(_))), "{key}: {closed:?}");
                }
                assert_eq!((stage.rows().await, stage.state(&claim(&key)).await), (0, None), "{key}");
            }
        }
    }
    let (_, mut running) = stage.open(&claim("next")).await;
    running.pay("next").await;
    assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
    assert_eq!(stage.rows().await, 1);
}

/// However long the handler's tasks keep it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_that_is_kept_in_use_keeps_no_connection_of_the_pool() {
    let stage = Stage::with(Driver::TokioPostgres, Where::Old, 1, TransactionOptions::default()).await;
    let (_, running) = stage.open(&claim("order")).await;
    let Handle::TokioPostgres(kept) = &running.handle else { panic!("tokio-postgres") };
    let (kept, busy) = (kept.clone(), kept.clone());
    let mut sleeps = JoinSet::new();
    sleeps.spawn(async move { busy.batch_execute("SELECT pg_sleep(600)").await });
    stage.raw.until("SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'", 1).await;
    let closed = running.commit().await;
    assert!(matches!(closed, Err(StoreError::NotApplied(_))), "{closed:?}");
    sleeps.join_next().await.expect("a task").expect("no panic").expect_err("its session was ended");
    let (_, mut running) = stage.open(&claim("next")).await;
    running.pay("next").await;
    assert!(matches!(running.commit().await, Ok(Closed::Recorded { .. })));
    assert_eq!(kept.batch_execute("SELECT 1").await.expect_err("ended").to_string(), ENDED);
}
