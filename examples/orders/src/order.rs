//! What an order is, and which ones are taken.

use std::fmt::Display;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, http::HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

/// What a client sends. The amount stays the text it came as, `12.50` or `"12.50"`: money is no float.
#[derive(Deserialize, Serialize)]
pub(crate) struct Order {
    items: Vec<Item>,
    amount: Box<RawValue>,
    currency: String,
}

#[derive(Deserialize, Serialize)]
struct Item {
    sku: String,
    qty: u32,
}

/// What it gets.
#[derive(Serialize)]
pub(crate) struct Placed {
    pub(crate) order_id: String,
    pub(crate) account_id: String,
    #[serde(flatten)]
    pub(crate) order: Order,
    pub(crate) status: &'static str,
}

impl Order {
    /// What is wrong with it, if anything is. Such an answer is recorded like any other: it is the answer to this key.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let amount = self.amount.get().trim_matches('"');
        let (whole, cents) = amount.split_once('.').unwrap_or((amount, "0"));
        let digits = |text: &str| (1..=15).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if self.items.is_empty() || self.items.iter().any(|item| item.sku.is_empty() || item.qty == 0) {
            Some("an order has items, each with a sku and a qty of at least 1")
        } else if !digits(whole) || !digits(cents) || amount.bytes().all(|byte| matches!(byte, b'0' | b'.')) {
            Some("the amount is a positive decimal number, like 12.50")
        } else if self.currency.len() != 3 || !self.currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
            Some("the currency is three capital letters, like EUR")
        } else {
            None
        }
    }
}

impl Placed {
    pub(crate) fn created(self) -> Response {
        (StatusCode::CREATED, [(header::LOCATION, format!("/orders/{}", self.order_id))], Json(self)).into_response()
    }
}

pub(crate) fn refused(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({ "error": why }))).into_response()
}

/// What became of the database is told in the log. Such an answer isn't recorded: a retry runs again.
pub(crate) fn failed(error: impl Display) -> Response {
    tracing::error!(%error, "orders can't be read or written");
    refused(StatusCode::INTERNAL_SERVER_ERROR, "orders can't be read or written")
}

/// Whose request it is. A real API knows that from a session or a token. Without it no order is found, and oncekey lets none in.
pub(crate) fn account(headers: &HeaderMap) -> String {
    headers.get("x-account-id").map(HeaderValue::as_bytes).map(String::from_utf8_lossy).unwrap_or_default().into_owned()
}
