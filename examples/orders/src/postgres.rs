//! Orders in PostgreSQL, in the database that the records are in.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use deadpool_postgres::{Manager, Pool, PoolError};
use oncekey::postgres::{PgTransaction, PgTransactionError, PgTransactions, TransactionOptions};

use crate::Database;
use crate::order::{Order, Placed, account, failed, refused};

/// As in `sqlite`. The lock is for two programs that start at once: without it one would fail to make what the other just makes.
const TABLES: &str = "SELECT pg_advisory_xact_lock(hashtext('orders'));
CREATE TABLE IF NOT EXISTS orders (
    order_id TEXT PRIMARY KEY DEFAULT replace(gen_random_uuid()::text, '-', ''),
    account_id TEXT NOT NULL,
    content TEXT NOT NULL -- items, amount and currency, as JSON
)";

/// Connects to the database, and makes what isn't there yet. The pool is the application's own; oncekey begins its transactions on it.
pub(crate) async fn open(url: &str) -> Result<Database, Box<dyn std::error::Error>> {
    let pool = Pool::builder(Manager::new(url.parse()?, tokio_postgres::NoTls)).max_size(10).build()?;
    pool.get().await?.batch_execute(TABLES).await?;
    let store = oncekey::postgres::open(url).await?;
    let transactions = PgTransactions::with_pool(&store, pool.clone(), TransactionOptions::default()).await?;
    let routes = Router::new().route("/orders", post(place)).route("/orders/{id}", get(find)).with_state(pool);
    Ok((store, Arc::new(transactions), routes))
}

/// Works in the transaction of its record. The client is answered once both are committed, by oncekey: nothing is to be done for it.
async fn place(transaction: PgTransaction, headers: HeaderMap, Json(order): Json<Order>) -> Response {
    match order.problem() {
        Some(why) => refused(StatusCode::UNPROCESSABLE_ENTITY, why),
        None => insert(&transaction, account(&headers), order).await.map_or_else(failed, Placed::created),
    }
}

async fn insert(tx: &PgTransaction, account_id: String, order: Order) -> Result<Placed, PgTransactionError> {
    let insert = "INSERT INTO orders (account_id, content) VALUES ($1, $2) RETURNING order_id";
    let content = serde_json::to_string(&order).expect("what was JSON is JSON");
    let row = tx.query_one(&tx.prepare_cached(insert).await?, &[&account_id, &content]).await?;
    Ok(Placed { order_id: row.try_get(0)?, account_id, order, status: "created" })
}

/// An order of this account. Another's doesn't exist for it.
async fn find(State(pool): State<Pool>, headers: HeaderMap, Path(id): Path<String>) -> Response {
    match select(&pool, &id, &account(&headers)).await {
        Ok(Some(order)) => Json(order).into_response(),
        Ok(None) => refused(StatusCode::NOT_FOUND, "no such order"),
        Err(error) => failed(error),
    }
}

async fn select(pool: &Pool, id: &str, account_id: &str) -> Result<Option<Placed>, PoolError> {
    let select = "SELECT order_id, account_id, content FROM orders WHERE order_id = $1 AND account_id = $2";
    let client = pool.get().await?;
    let row = client.query_opt(&client.prepare_cached(select).await?, &[&id, &account_id]).await?;
    let Some(row) = row else { return Ok(None) };
    let order = serde_json::from_str(row.try_get(2)?).expect("what was stored is an order");
    Ok(Some(Placed { order_id: row.try_get(0)?, account_id: row.try_get(1)?, order, status: "created" }))
}
