//! The provider as the program calls it.

use std::fmt;
use std::time::Duration;

use axum::http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone)]
pub(crate) struct Provider {
    client: reqwest::Client,
    charges: String,
}

/// What the provider decided, for good.
#[derive(Serialize, Deserialize)]
pub(crate) struct Charge {
    /// None if the card was declined.
    pub(crate) id: Option<String>,
}

/// Nobody knows whether the card was charged.
pub(crate) struct NoAnswer(String);

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the provider gave no answer: {}", self.0)
    }
}

impl From<reqwest::Error> for NoAnswer {
    fn from(error: reqwest::Error) -> Self {
        Self(error.to_string())
    }
}

impl Provider {
    pub(crate) fn at(url: &str) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build()?;
        Ok(Self { client, charges: format!("{url}/charges") })
    }

    /// Charges a card once for all calls with this key.
    pub(crate) async fn charge(&self, key: &str, payment: i64, amount: i64, card: &str) -> Result<Charge, NoAnswer> {
        let body = json!({ "payment": payment, "amount": amount, "card": card }).to_string();
        let request = self.client.post(&self.charges).header("idempotency-key", key).body(body);
        let response = request.header(header::CONTENT_TYPE, "application/json").send().await?;
        match response.status() {
            StatusCode::CREATED => {
                let charge = response.bytes().await?;
                serde_json::from_slice(&charge).map_err(|error| NoAnswer(error.to_string()))
            }
            StatusCode::PAYMENT_REQUIRED => Ok(Charge { id: None }),
            status => Err(NoAnswer(format!("it said {status}"))),
        }
    }
}
