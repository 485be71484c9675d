//! An axum application whose orders are placed once. Run it as its README says.

use std::sync::atomic::{AtomicU32, Ordering};

use axum::Extension;
use axum::http::StatusCode;
use axum::{Router, routing::post};
use oncekey::{Attempt, Oncekey, Options};

static ORDERS: AtomicU32 = AtomicU32::new(0);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let database = arguments.next().unwrap_or_else(|| "orders.db".to_owned());

    let oncekey = Oncekey::start(oncekey::sqlite::open(database)?, Options::default()).await?;
    let app = Router::new().route("/orders", post(place)).layer(oncekey.layer());

    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(interrupted()).await?;
    oncekey.shutdown().await;
    Ok(())
}

/// Places an order, and says by which attempt of which operation, if the request has a key.
async fn place(attempt: Option<Extension<Attempt>>) -> (StatusCode, String) {
    let order = ORDERS.fetch_add(1, Ordering::Relaxed) + 1;
    let attempt = attempt.map(|Extension(attempt)| format!(" by attempt {} of {}", attempt.number, attempt.id));
    (StatusCode::CREATED, format!("order {order} placed{}\n", attempt.unwrap_or_default()))
}

async fn interrupted() {
    let _ = tokio::signal::ctrl_c().await;
}
