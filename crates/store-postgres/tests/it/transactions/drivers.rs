//! What handlers do with their transactions, by each driver's own means.

use axum_core::extract::FromRequestParts;
use axum_core::response::IntoResponse;
use http::{Request, StatusCode};
use oncekey_store::{Begun, Closed, Ending, TransactionHandle};
use oncekey_store_postgres::{NoTransaction, PgTransaction, SqlxTransaction};
use oncekey_store_test::samples;
use sqlx::Acquire;

use super::{Driver, Stage, Where, claim, extensions};

/// The transaction as the store gives it.
async fn opened(stage: &Stage, key: &str) -> Box<dyn oncekey_store::Transaction> {
    match stage.transactions.begin(claim(key)).await {
        Ok(Begun::Open { transaction, .. }) => transaction,
        other => panic!("{}", super::told(&other)),
    }
}

#[tokio::test]
async fn tokio_postgres_has_the_clients_methods() {
    let stage = Stage::new(Driver::TokioPostgres, Where::Old).await;
    let transaction = opened(&stage, "order").await;
    let tx = PgTransaction::of(&extensions(&*transaction)).expect("a transaction");
    let insert = tx.prepare("INSERT INTO ledger (key, amount) VALUES ($1, $2)").await.expect("prepared");
    assert_eq!(tx.execute(&insert, &[&"order", &7]).await.expect("a row"), 1);
    let amount: i32 =
        tx.query_one("SELECT amount FROM ledger WHERE key = $1", &[&"order"]).await.expect("a row").get(0);
    assert_eq!(amount, 7);
    assert!(tx.query_opt("SELECT FROM ledger WHERE key = 'none'", &[]).await.expect("an answer").is_none());
    // Several tasks at once.
    let (one, two) = (tx.clone(), tx.clone());
    let count = "SELECT count(*) FROM ledger";
    let (one, two) = tokio::join!(one.query(count, &[]), two.query(count, &[]));
    assert_eq!((one.expect("rows").len(), two.expect("rows").len()), (1, 1));

    let kept = tx.savepoint("kept \"one\"").await.expect("a savepoint");
    kept.execute("UPDATE ledger SET amount = amount + 1", &[]).await.expect("updated");
    kept.commit().await.expect("kept");
    let undone = tx.savepoint("undone").await.expect("a savepoint");
    undone.execute("SELECT 1 / 0", &[]).await.expect_err("refused");
    undone.rollback().await.expect("undone");
    {
        let dropped = tx.savepoint("dropped").await.expect("a savepoint");
        let inner = dropped.savepoint("inner").await.expect("a savepoint in it");
        inner.execute("DELETE FROM ledger", &[]).await.expect("deleted");
    }
    let amount: i32 = tx.query_one("SELECT amount FROM ledger", &[]).await.expect("a row").get(0);
    assert_eq!(amount, 8);
    // Also when it was the last that was done.
    let dropped = tx.savepoint("last").await.expect("a savepoint");
    dropped.execute("DELETE FROM ledger", &[]).await.expect("deleted");
    drop(dropped);
    assert!(matches!(transaction.end(Ending::Commit(samples::completed("done"))).await, Ok(Closed::Recorded { .. })));
    assert_eq!((stage.raw.count("SELECT amount::bigint FROM ledger").await, stage.torn().await), (8, 0));
}

#[tokio::test]
async fn sqlx_runs_on_what_it_dereferences_to() {
    let stage = Stage::new(Driver::Sqlx, Where::Old).await;
    let transaction = opened(&stage, "order").await;
    let extensions = extensions(&*transaction);
    let mut tx = SqlxTransaction::of(&extensions).expect("a transaction");
    assert_eq!(SqlxTransaction::of(&extensions).expect_err("it can be had once"), NoTransaction::Taken);
    sqlx::query("INSERT INTO ledger (key, amount) VALUES ($1, $2)")
        .bind("order")
        .bind(7)
        .execute(&mut *tx)
        .await
        .expect("a row");
    let amounts: Vec<i32> = sqlx::query_scalar("SELECT amount FROM ledger").fetch_all(&mut *tx).await.expect("rows");
    assert_eq!(amounts, [7]);

    let mut kept = tx.begin().await.expect("a savepoint");
    sqlx::query("UPDATE ledger SET amount = amount + 1").execute(&mut *kept).await.expect("updated");
    kept.commit().await.expect("kept");
    let mut dropped = tx.begin().await.expect("a savepoint");
    sqlx::query("DELETE FROM ledger").execute(&mut *dropped).await.expect("deleted");
    drop(dropped);
    let amount: i32 = sqlx::query_scalar("SELECT amount FROM ledger").fetch_one(&mut *tx).await.expect("a row");
    assert_eq!(amount, 8);
    sqlx::query("SELECT").execute(tx.connection().expect("the connection")).await.expect("executed");
    // Also when it was the last that was done.
    let mut last = tx.begin().await.expect("a savepoint");
    sqlx::query("DELETE FROM ledger").execute(&mut *last).await.expect("deleted");
    drop(last);
    drop(tx);
    assert!(matches!(transaction.end(Ending::Commit(samples::completed("done"))).await, Ok(Closed::Recorded { .. })));
    assert_eq!((stage.raw.count("SELECT amount::bigint FROM ledger").await, stage.torn().await), (8, 0));
}

/// A mistake of the program is told, and answered with 500.
#[tokio::test]
async fn a_handler_without_a_transaction_is_told() {
    let (mut parts, ()) = Request::new(()).into_parts();
    let refused = PgTransaction::from_request_parts(&mut parts, &()).await.expect_err("there is none");
    assert_eq!(refused, NoTransaction::Absent);
    let refused = SqlxTransaction::from_request_parts(&mut parts, &()).await.expect_err("there is none");
    assert_eq!(refused, NoTransaction::Absent);
    assert_eq!(refused.into_response().status(), StatusCode::INTERNAL_SERVER_ERROR);

    let stage = Stage::new(Driver::Sqlx, Where::Old).await;
    let transaction = opened(&stage, "order").await;
    parts.extensions.insert(TransactionHandle(transaction.handle()));
    let refused = PgTransaction::from_request_parts(&mut parts, &()).await.expect_err("it is sqlx's");
    assert_eq!(refused, NoTransaction::OtherDriver);
    SqlxTransaction::from_request_parts(&mut parts, &()).await.expect("the transaction");
}
