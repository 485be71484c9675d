//! An orders API that places each order once: the order's row and the recorded answer commit together, or neither does. What an
//! order is stands in `order`, what the database does in `postgres` and `sqlite`, of which a program of yours has one; here are what
//! the routes promise, and the server. Run it as its README says.

mod order;
mod postgres;
mod sqlite;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use oncekey::protocol::policy::{Policy, Timing};
use oncekey::store::Transactions;
use oncekey::{Guard, Oncekey, Options, Route, Store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// What a database has to offer: records, transactions that orders are placed in, and the routes that use them.
type Database = (Arc<dyn Store>, Arc<dyn Transactions>, Router);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::WARN).init();
    let hours = setting("IDEMPOTENCY_TTL_HOURS").map_or(Ok(48), |hours| hours.parse())?;
    let port = setting("PORT").map_or(Ok(8000), |port| port.parse::<u16>())?;
    let (store, transactions, orders): Database = match setting("DATABASE_URL") {
        Some(url) => postgres::open(&url).await?,
        None => sqlite::open("orders.db").await?,
    };

    // Every order needs a key. Whose key it is, is what X-Account-Id says: that is the default.
    let guard = Guard { key_required: true, ..Guard::default() };
    let timing = Timing { ttl: Duration::from_hours(hours), ..Timing::default() };
    let policy = Arc::new(Policy { route: "/orders".to_owned(), timing, ..Policy::default() });
    let routes = vec![Route { guard, policy, ..Route::at("/orders") }.within(transactions)];
    let oncekey = Oncekey::start(store, Options { routes, ..Options::default() }).await?;

    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, orders.layer(oncekey.layer())).with_graceful_shutdown(told_to_end()?).await?;
    oncekey.shutdown().await;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the one place where this program reads its environment")]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Ctrl-C, or what a service manager sends. What executes then is finished, and its client answered.
fn told_to_end() -> std::io::Result<impl Future<Output = ()>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    })
}
