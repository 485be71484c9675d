//! Payments that charge a card at a provider: a crash at any moment, and the retry goes on from where the payment was. Run it as
//! its README says.

mod provider;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing::post};
use oncekey::postgres::{PgRecoveryPoints, PgSteps, PgStepsError, TransactionOptions};
use oncekey::protocol::policy::{OnUnknown, Policy};
use oncekey::{Guard, Oncekey, Options, Route, Settings};
use provider::{Charge, NoAnswer, Provider};
use serde::{Deserialize, Serialize};

#[derive(Clone)]
struct App {
    points: PgRecoveryPoints,
    provider: Provider,
}

/// By this a handler can ask for its steps.
impl FromRef<App> for PgRecoveryPoints {
    fn from_ref(app: &App) -> Self {
        app.points.clone()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = setting("PORT", "3000").parse()?;
    let database = setting("DATABASE_URL", "postgres://postgres@127.0.0.1/payments");
    let lease = Duration::from_millis(setting("LEASE_MS", "5000").parse()?);

    let store = oncekey::postgres::open(&database).await?;
    let (client, connection) = tokio_postgres::connect(&database, tokio_postgres::NoTls).await?;
    let making = async move { client.batch_execute(TABLE).await };
    let (made, _) = tokio::join!(making, connection);
    made?;
    let points = PgRecoveryPoints::open(&store, 10, TransactionOptions::default()).await?;
    let provider = Provider::at(&setting("PROVIDER_URL", "http://127.0.0.1:3001"))?;

    // After a crash a retry executes again, since each step is either done or can be done again without harm.
    let policy = Policy { on_unknown: OnUnknown::Retry, max_attempts: 1000, ..Policy::default() };
    let guard = Guard { key_required: true, ..Guard::default() };
    let route = Route { guard, policy: Arc::new(policy), ..Route::at("/payments") };
    // Who is silent for this long counts as crashed.
    let settings = Settings { lease, ..Settings::default() };
    let oncekey = Oncekey::start(store, Options { routes: vec![route], settings, ..Options::default() }).await?;
    let app = Router::new().route("/payments", post(pay)).with_state(App { points, provider }).layer(oncekey.layer());

    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(async { _ = tokio::signal::ctrl_c().await }).await?;
    oncekey.shutdown().await;
    Ok(())
}

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS payments (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount BIGINT NOT NULL, state TEXT NOT NULL, charge TEXT,
        settled INT NOT NULL DEFAULT 0)
";

#[derive(Deserialize)]
struct Order {
    amount: i64,
    card: String,
}

#[derive(Serialize)]
struct Payment {
    payment: i64,
    charge: Option<String>,
}

async fn pay(State(app): State<App>, steps: PgSteps, Json(order): Json<Order>) -> Result<Response, Stopped> {
    // The intent: this row and the step are committed together, so there is one row however often the handler runs.
    let payment = steps.transaction("intended", async |tx| {
        let insert = "INSERT INTO payments (amount, state) VALUES ($1, 'intended') RETURNING id";
        Ok(tx.query_one(insert, &[&order.amount]).await?.try_get::<_, i64>(0)?)
    });
    let payment = payment.await?;

    // The call: with the same key each time, so that the provider charges once however often it is called. It can't be part of
    // any transaction, and none is open meanwhile.
    let charge = if let Some(charge) = steps.saved::<Charge>("charged").await? {
        charge
    } else {
        let charge = app.provider.charge(&steps.key("charge"), payment, order.amount, &order.card).await?;
        steps.save("charged", &charge).await?;
        charge
    };

    // The result.
    steps
        .transaction("settled", async |tx| {
            let state = if charge.id.is_some() { "paid" } else { "declined" };
            let update = "UPDATE payments SET state = $2, charge = $3, settled = settled + 1 WHERE id = $1";
            tx.execute(update, &[&payment, &state, &charge.id]).await?;
            Ok(())
        })
        .await?;
    let status = if charge.id.is_some() { StatusCode::CREATED } else { StatusCode::PAYMENT_REQUIRED };
    Ok((status, Json(Payment { payment, charge: charge.id })).into_response())
}

/// Why a payment stopped on its way. Its answer leaves the outcome unknown, and a retry goes on.
enum Stopped {
    Steps(PgStepsError),
    Provider(NoAnswer),
}

impl From<PgStepsError> for Stopped {
    fn from(error: PgStepsError) -> Self {
        Self::Steps(error)
    }
}

impl From<NoAnswer> for Stopped {
    fn from(error: NoAnswer) -> Self {
        Self::Provider(error)
    }
}

impl IntoResponse for Stopped {
    fn into_response(self) -> Response {
        match self {
            Self::Steps(error) => error.into_response(),
            // 504 says that nobody knows; a 500 would be recorded as the payment's answer.
            Self::Provider(error) => (StatusCode::GATEWAY_TIMEOUT, format!("{error}\n")).into_response(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place where this program reads its environment")]
fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}
