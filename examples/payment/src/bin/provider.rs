//! A payment provider to try the example against: it honours idempotency keys of its own, and misbehaves if the card says so.
//! It forgets everything at its end. With the argument `ignore-keys` it charges at each call.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing::post};
use serde_json::{Value, json};

#[derive(Clone, Default)]
struct Provider {
    ignores_keys: bool,
    book: Arc<Mutex<Book>>,
}

/// What was charged, and which answer belongs to which key.
#[derive(Default)]
struct Book {
    charges: Vec<Value>,
    answers: HashMap<String, Value>,
    calls: HashMap<String, u32>,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:3001".to_owned());
    let provider = Provider { ignores_keys: arguments.next().as_deref() == Some("ignore-keys"), ..Provider::default() };
    let app = Router::new().route("/charges", post(charge).get(charges)).with_state(provider);
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await
}

async fn charge(State(provider): State<Provider>, head: HeaderMap, Json(order): Json<Value>) -> Response {
    let key = head.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
    let card = order["card"].as_str().unwrap_or_default().to_owned();
    let is_first = {
        let mut book = provider.book.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = book.calls.entry(key.clone()).or_default();
        *calls += 1;
        *calls == 1
    };
    if card == "fails" && is_first {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    if card == "declined" {
        return StatusCode::PAYMENT_REQUIRED.into_response();
    }
    let answer =
        provider.book.lock().unwrap_or_else(PoisonError::into_inner).charge(&key, order, provider.ignores_keys);
    // Charged, and the answer is late, or never comes.
    match card.as_str() {
        "slow" if is_first => tokio::time::sleep(Duration::from_secs(2)).await,
        "brisk" => tokio::time::sleep(Duration::from_millis(20)).await,
        "hangs" if is_first => std::future::pending().await,
        _ => {}
    }
    (StatusCode::CREATED, Json(answer)).into_response()
}

impl Book {
    fn charge(&mut self, key: &str, mut order: Value, ignores_keys: bool) -> Value {
        if let Some(answer) = self.answers.get(key)
            && !ignores_keys
        {
            return answer.clone();
        }
        let answer = json!({ "id": format!("ch_{}", self.charges.len() + 1) });
        order["id"] = answer["id"].clone();
        self.charges.push(order);
        self.answers.insert(key.to_owned(), answer.clone());
        answer
    }
}

/// All that was charged.
async fn charges(State(provider): State<Provider>) -> Json<Value> {
    Json(json!(provider.book.lock().unwrap_or_else(PoisonError::into_inner).charges))
}
