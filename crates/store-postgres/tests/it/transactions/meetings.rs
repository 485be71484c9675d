//! Transactions that meet others: two-commit claims of the same record, failures to serialize, deadlocks, locks.

use std::time::Duration;

use oncekey_core::State;
use oncekey_store::{Begun, Closed, Ending, Replaces, Store};
use oncekey_store_postgres::{Isolation, TransactionOptions};
use oncekey_store_test::{granted, samples, written};

use super::{Driver, Running, Stage, Where, claim, everywhere, told, transactions};

everywhere! {
    a_two_commit_claim_never_waits_for_a_handler
    a_replaced_record_is_met
    failures_to_serialize_run_again
    requests_that_have_nothing_in_common_serialize
    deadlocks_run_again
    a_wait_for_another_transaction_is_bounded
}

/// Decision 0044: the rival's claim, and the batch that it is in, are granted at once; then the transaction has met it.
async fn a_two_commit_claim_never_waits_for_a_handler(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let mine = claim("order");
    let (_, mut running) = stage.open(&mine).await;
    running.pay("order").await;
    let rival = claim("order");
    granted(&stage.store.claim(rival.clone()).await);
    let closed = running.commit().await;
    assert!(matches!(&closed, Ok(Closed::Met(found)) if found.record.token == rival.token), "{closed:?}");
    assert_eq!((stage.rows().await, stage.state(&mine).await), (0, Some(State::Processing)));
    written(&stage.store.record(rival.identity.id(), rival.token, samples::completed("rival's")).await);
}

/// Two saw the same failure: one of them has claimed it anew meanwhile.
async fn a_replaced_record_is_met(driver: Driver, place: Where) {
    let stage = Stage::new(driver, place).await;
    let first = claim("order");
    granted(&stage.store.claim(first.clone()).await);
    written(&stage.store.record(first.identity.id(), first.token, samples::failed()).await);
    let seen = Replaces { token: first.token, state: State::Failed, expired: false };
    let retry = || samples::retry(&first.identity, samples::owner(), seen);
    let (_, mut running) = stage.open(&retry()).await;
    running.pay("order").await;
    let rival = retry();
    granted(&stage.store.claim(rival.clone()).await);
    let closed = running.commit().await;
    assert!(matches!(&closed, Ok(Closed::Met(found)) if found.record.token == rival.token), "{closed:?}");
    assert_eq!(stage.rows().await, 0);
}

/// However close their records are, and whether it is the transactions' own level or the database's default. What two have read
/// and the other wrote would fail the second.
async fn requests_that_have_nothing_in_common_serialize(driver: Driver, place: Where) {
    let options = TransactionOptions { isolation: Isolation::Serializable, ..TransactionOptions::default() };
    let mut stage = Stage::with(driver, place, 5, options).await;
    for by_default in [false, true] {
        // PgBouncer has connections from before.
        if by_default && place == Where::Pooled {
            continue;
        }
        if by_default {
            let name = stage.url.rsplit('/').next().expect("a database").split('?').next().expect("a name").to_owned();
            let sql = format!("ALTER DATABASE \"{name}\" SET default_transaction_isolation = serializable");
            stage.raw.client.batch_execute(&sql).await.expect("altered");
            stage.transactions = transactions(driver, &stage.store, &stage.url, 5, TransactionOptions::default())
                .await
                .expect("transactions");
        }
        let mut running = Vec::new();
        for n in 0..5 {
            running.push((n, stage.open(&claim(&format!("{by_default}-{n}"))).await.1));
        }
        for (n, running) in &mut running {
            running.pay(&format!("{by_default}-{n}")).await;
        }
        for (n, running) in running {
            let closed = running.commit().await;
            assert!(matches!(closed, Ok(Closed::Recorded { .. })), "{by_default}-{n}: {closed:?}");
        }
        // A duplicate is told, and a failure is attempted again.
        let found = stage.transactions.begin(claim(&format!("{by_default}-0"))).await;
        assert!(matches!(found, Ok(Begun::Held(_))), "{}", told(&found));
        let first = claim(&format!("{by_default}-failed"));
        let (_, running) = stage.open(&first).await;
        assert!(matches!(running.end(Ending::Commit(samples::failed())).await, Ok(Closed::Recorded { .. })));
        let seen = Replaces { token: first.token, state: State::Failed, expired: false };
        let (attempt, running) = stage.open(&samples::retry(&first.identity, first.owner, seen)).await;
        assert_eq!((attempt, running.end(Ending::RollBack).await.is_ok()), (2, true));
    }
    assert_eq!((stage.rows().await, stage.torn().await), (if place == Where::Pooled { 5 } else { 10 }, 0));
}

/// Whatever the handler makes of it: nothing (its answer is as if all had gone well), an answer about it, or an error.
async fn failures_to_serialize_run_again(driver: Driver, place: Where) {
    let options = TransactionOptions { isolation: Isolation::Serializable, ..TransactionOptions::default() };
    let stage = Stage::with(driver, place, 5, options).await;
    stage.raw.client.batch_execute("INSERT INTO ledger VALUES ('seat', 1)").await.expect("a seat");
    let endings = [
        Ending::Commit(samples::completed("done")),
        Ending::CommitRecord(samples::completed("taken")),
        Ending::RollBack,
    ];
    for (n, ending) in endings.into_iter().enumerate() {
        let claim = claim(&format!("statement-{n}"));
        let (_, mut running) = stage.open(&claim).await;
        running.handle.run("SELECT * FROM ledger").await.expect("a reading");
        stage.raw.client.batch_execute("UPDATE ledger SET amount = amount + 1").await.expect("another's change");
        let code = running.handle.run("UPDATE ledger SET amount = amount - 1").await.expect_err("refused");
        assert_eq!(code, "40001");
        let closed = running.end(ending).await;
        assert!(matches!(closed, Ok(Closed::Again)), "{closed:?}");
        assert_eq!(stage.state(&claim).await, None);
    }
    // At the commit: both have read what the other writes.
    let (one, two) = (claim("one"), claim("two"));
    let ((_, mut first), (_, mut second)) = (stage.open(&one).await, stage.open(&two).await);
    for running in [&mut first, &mut second] {
        running.handle.run("SELECT count(*) FROM ledger").await.expect("a reading");
    }
    first.pay("one").await;
    let paid = second.handle.run("INSERT INTO ledger (key) VALUES ('two')").await;
    assert!(matches!(first.commit().await, Ok(Closed::Recorded { .. })));
    let closed = second.commit().await;
    assert!(matches!(closed, Ok(Closed::Again)), "{paid:?}, {closed:?}");
    assert_eq!((stage.state(&one).await, stage.state(&two).await), (Some(State::Completed), None));
    // Run again, it goes through.
    let (_, mut again) = stage.open(&two).await;
    again.pay("two").await;
    assert!(matches!(again.commit().await, Ok(Closed::Recorded { .. })));
}

async fn deadlocks_run_again(driver: Driver, place: Where) {
    let options = TransactionOptions { lock_timeout: Duration::from_mins(1), ..TransactionOptions::default() };
    let stage = Stage::with(driver, place, 5, options).await;
    stage.raw.client.batch_execute("INSERT INTO ledger VALUES ('a', 0), ('b', 0)").await.expect("rows");
    let ((_, mut first), (_, mut second)) = (stage.open(&claim("one")).await, stage.open(&claim("two")).await);
    let take = |row: &str| format!("UPDATE ledger SET amount = amount + 1 WHERE key = '{row}'");
    first.handle.run(&take("a")).await.expect("the one");
    second.handle.run(&take("b")).await.expect("the other");
    let crossing = async |mut running: Running, row: &str| {
        let crossed = running.handle.run(&take(row)).await;
        (crossed, running.commit().await)
    };
    let (one, two) = tokio::join!(crossing(first, "b"), crossing(second, "a"));
    let (won, lost) = if one.0.is_ok() { (one, two) } else { (two, one) };
    assert!(matches!(won, (Ok(()), Ok(Closed::Recorded { .. }))), "{won:?}");
    assert_eq!(lost.0, Err("40P01".to_owned()));
    assert!(matches!(lost.1, Ok(Closed::Again)), "{lost:?}");
    assert_eq!(stage.raw.count("SELECT sum(amount) FROM ledger").await, 2);
}

async fn a_wait_for_another_transaction_is_bounded(driver: Driver, place: Where) {
    let options = TransactionOptions { lock_timeout: Duration::from_millis(50), ..TransactionOptions::default() };
    let stage = Stage::with(driver, place, 5, options).await;
    stage.raw.client.batch_execute("BEGIN; LOCK TABLE ledger").await.expect("a lock");
    let claim = claim("order");
    let (_, mut running) = stage.open(&claim).await;
    assert_eq!(running.handle.run("INSERT INTO ledger VALUES ('order')").await, Err("55P03".to_owned()));
    let closed = running.end(Ending::RollBack).await;
    assert!(matches!(closed, Ok(Closed::RolledBack)), "{closed:?}");
    stage.raw.client.batch_execute("ROLLBACK").await.expect("let go");
    assert_eq!(stage.state(&claim).await, None);
}
