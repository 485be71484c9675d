//! Orders in SQLite, in the file that the records are in.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use oncekey::StoreError;
use oncekey::sqlite::rusqlite::{Connection, OptionalExtension, Result, Row};
use oncekey::sqlite::{SqliteStore, SqliteTransaction};

use crate::Database;
use crate::order::{Order, Placed, account, failed, refused};

const TABLES: &str = "CREATE TABLE IF NOT EXISTS orders (
    order_id TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(16)))),
    account_id TEXT NOT NULL,
    content TEXT NOT NULL -- items, amount and currency, as JSON
) STRICT";

/// Opens the database, and makes what isn't there yet.
pub(crate) async fn open(path: &str) -> std::result::Result<Database, StoreError> {
    let store = oncekey::sqlite::open(path)?;
    store.make_tables(TABLES).await?;
    let routes = Router::new().route("/orders", post(place)).route("/orders/{id}", get(find)).with_state(store.clone());
    Ok((store.clone(), store, routes))
}

/// Checks the order, which may take its time, and hands over what is done in the transaction of its record. The client is
/// answered once both are committed.
async fn place(transaction: SqliteTransaction, headers: HeaderMap, Json(order): Json<Order>) -> Response {
    match order.problem() {
        Some(why) => refused(StatusCode::UNPROCESSABLE_ENTITY, why),
        None => transaction.run(move |connection| insert(connection, account(&headers), order).map(Placed::created)),
    }
}

fn insert(connection: &Connection, account_id: String, order: Order) -> Result<Placed> {
    let insert = "INSERT INTO orders (account_id, content) VALUES (?1, ?2) RETURNING order_id";
    let content = serde_json::to_string(&order).expect("what was JSON is JSON");
    let order_id = connection.prepare_cached(insert)?.query_row([&account_id, &content], |row| row.get(0))?;
    Ok(Placed { order_id, account_id, order, status: "created" })
}

/// An order of this account. Another's doesn't exist for it.
async fn find(State(store): State<Arc<SqliteStore>>, headers: HeaderMap, Path(id): Path<String>) -> Response {
    let select = "SELECT order_id, account_id, content FROM orders WHERE order_id = ?1 AND account_id = ?2";
    let read = move |connection: &Connection| {
        connection.prepare_cached(select)?.query_row([id, account(&headers)], placed).optional()
    };
    match store.query(read).await {
        Ok(Ok(Some(order))) => Json(order).into_response(),
        Ok(Ok(None)) => refused(StatusCode::NOT_FOUND, "no such order"),
        Ok(Err(error)) => failed(error),
        Err(error) => failed(error),
    }
}

fn placed(row: &Row<'_>) -> Result<Placed> {
    let order = serde_json::from_str(row.get_ref(2)?.as_str()?).expect("what was stored is an order");
    Ok(Placed { order_id: row.get(0)?, account_id: row.get(1)?, order, status: "created" })
}
