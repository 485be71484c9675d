//! An axum application on sqlx, whose orders and their answers commit together. Run it as its README says.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::{Router, routing::post};
use oncekey::postgres::{SqlxTransaction, SqlxTransactions, TransactionOptions};
use oncekey::{Oncekey, Options};
use sqlx::PgPool;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let database = arguments.next().unwrap_or_else(|| "postgres://localhost/orders".to_owned());

    let pool = PgPool::connect(&database).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;

    let store = oncekey::postgres::open(&database).await?;
    let transactions = SqlxTransactions::with_pool(&store, pool, TransactionOptions::default()).await?;
    let options = Options { transactions: Some(Arc::new(transactions)), ..Options::default() };
    let oncekey = Oncekey::start(store, options).await?;
    let app = Router::new().route("/orders", post(place)).layer(oncekey.layer());

    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(interrupted()).await?;
    oncekey.shutdown().await;
    Ok(())
}

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS stock (sku TEXT PRIMARY KEY, pieces INT NOT NULL CHECK (pieces >= 0));
    INSERT INTO stock VALUES ('tea', 2), ('coffee', 100) ON CONFLICT DO NOTHING;
    CREATE TABLE IF NOT EXISTS orders (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sku TEXT NOT NULL);
";

/// Places an order for one piece. Its rows are committed with this answer, by the same commit, and only if it is a 2xx.
async fn place(mut tx: SqlxTransaction, sku: String) -> Result<(StatusCode, String), Refused> {
    let id: i64 =
        sqlx::query_scalar("INSERT INTO orders (sku) VALUES ($1) RETURNING id").bind(&sku).fetch_one(&mut *tx).await?;
    let taken = sqlx::query("UPDATE stock SET pieces = pieces - 1 WHERE sku = $1 AND pieces > 0")
        .bind(&sku)
        .execute(&mut *tx)
        .await?;
    if taken.rows_affected() == 0 {
        // Recorded like any answer; the order above is undone.
        return Ok((StatusCode::CONFLICT, format!("there is no {sku}\n")));
    }
    Ok((StatusCode::CREATED, format!("order {id}: {sku}\n")))
}

/// The database failed: a 5xx leaves nothing, and a retry runs again.
struct Refused(sqlx::Error);

impl From<sqlx::Error> for Refused {
    fn from(error: sqlx::Error) -> Self {
        Self(error)
    }
}

impl axum::response::IntoResponse for Refused {
    fn into_response(self) -> axum::response::Response {
        eprintln!("an order failed: {}", self.0);
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

async fn interrupted() {
    let _ = tokio::signal::ctrl_c().await;
}
