//! What an order is, and which ones are taken.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

/// What a client sends. The amount stays the text it came as, `12.50` or `"12.50"`: money is no float.
#[derive(Deserialize, Serialize)]
pub struct Order {
    pub items: Vec<Item>,
    pub amount: Box<RawValue>,
    pub currency: String,
}

#[derive(Deserialize, Serialize)]
pub struct Item {
    pub sku: String,
    pub qty: u32,
}

/// What it gets.
#[derive(Serialize)]
pub struct Placed {
    pub order_id: String,
    pub account_id: String,
    #[serde(flatten)]
    pub order: Order,
    pub status: &'static str,
}

impl Order {
    /// What is wrong with it, if anything is. Such an answer is recorded like any other: it is the answer to this key.
    pub fn problem(&self) -> Option<&'static str> {
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
    pub fn created(self) -> Response {
        let location = [(header::LOCATION, format!("/orders/{}", self.order_id))];
        (StatusCode::CREATED, location, Json(self)).into_response()
    }
}

pub fn refused(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({ "error": why }))).into_response()
}

/// The account of a request. A real API takes it from a session or a token.
pub struct Account(pub String);

impl<S: Sync> FromRequestParts<S> for Account {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let account = parts.headers.get("x-account-id").and_then(|account| account.to_str().ok());
        let account = account.filter(|account| !account.is_empty());
        account.map(|account| Self(account.to_owned())).ok_or_else(|| refused(StatusCode::BAD_REQUEST, "no X-Account-Id"))
    }
}
