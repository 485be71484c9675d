//! The orders API of the demo: a small API as anyone might have it. It keeps orders in memory and takes every POST for a
//! new order; that it runs once is oncekey's doing, which is what the demo shows. So it says each time it ran.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::net::TcpListener;

/// Orders kept; past them the oldest goes.
const MOST_ORDERS: usize = 10_000;
/// Largest order, in bytes of JSON.
const LARGEST_ORDER: usize = 64 * 1024;
/// Most items of an order.
const MOST_ITEMS: usize = 100;

/// Serves the API until `shutdown` ends, then finishes what runs. Dropping the future stops it at once.
pub(crate) async fn serve(
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(listener, router()).with_graceful_shutdown(shutdown).await
}

fn router() -> Router {
    Router::new()
        .route("/orders", post(create))
        .route("/orders/{id}", get(read))
        .layer(DefaultBodyLimit::max(LARGEST_ORDER))
        .with_state(Arc::default())
}

type Orders = Arc<Mutex<Book>>;

/// The orders, and how often one was created.
#[derive(Debug, Default)]
struct Book {
    orders: HashMap<String, Arc<Order>>,
    oldest_first: VecDeque<String>,
    runs: u64,
}

impl Book {
    /// Adds an order; tells how many there have been.
    fn add(&mut self, order: Arc<Order>) -> u64 {
        if self.oldest_first.len() == MOST_ORDERS
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.orders.remove(&oldest);
        }
        self.oldest_first.push_back(order.order_id.clone());
        self.orders.insert(order.order_id.clone(), order);
        self.runs += 1;
        self.runs
    }
}

/// What a client orders. The amount stays the text that was sent: money is no float.
#[derive(Debug, Deserialize)]
struct NewOrder {
    items: Vec<Item>,
    amount: Box<RawValue>,
    currency: String,
}

#[derive(Debug, Deserialize, Serialize)]
struct Item {
    sku: String,
    qty: u32,
}

#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the fields are the API's")]
struct Order {
    order_id: String,
    account_id: String,
    amount: Box<RawValue>,
    currency: String,
    items: Vec<Item>,
    status: &'static str,
}

/// An answer to a request that can't be met.
struct Refusal(StatusCode, String);

impl From<Refusal> for Response {
    fn from(Refusal(status, error): Refusal) -> Self {
        json(status, &serde_json::json!({ "error": error }))
    }
}

fn unprocessable(error: impl Into<String>) -> Refusal {
    Refusal(StatusCode::UNPROCESSABLE_ENTITY, error.into())
}

async fn create(State(orders): State<Orders>, headers: HeaderMap, body: Result<Bytes, BytesRejection>) -> Response {
    let order = match body
        .map_err(|rejection| Refusal(rejection.status(), rejection.body_text()))
        .and_then(|body| new_order(&headers, &body))
    {
        Ok(order) => Arc::new(order),
        Err(refusal) => return refusal.into(),
    };
    let run = orders.lock().add(Arc::clone(&order));
    eprintln!(
        "orders API, run {run}: created {} for {}, {} {}",
        order.order_id, order.account_id, order.amount, order.currency
    );
    let mut response = json(StatusCode::CREATED, &*order);
    if let Ok(location) = HeaderValue::try_from(format!("/orders/{}", order.order_id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

async fn read(State(orders): State<Orders>, headers: HeaderMap, Path(id): Path<String>) -> Response {
    let account = match account(&headers) {
        Ok(account) => account,
        Err(refusal) => return refusal.into(),
    };
    let found = orders.lock().orders.get(&id).filter(|order| order.account_id == account).cloned();
    match found {
        Some(order) => json(StatusCode::OK, &*order),
        None => Refusal(StatusCode::NOT_FOUND, "this account has no such order".to_owned()).into(),
    }
}

fn new_order(headers: &HeaderMap, body: &[u8]) -> Result<Order, Refusal> {
    let account_id = account(headers)?;
    let new: NewOrder =
        serde_json::from_slice(body).map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.to_string()))?;
    if new.items.is_empty() || new.items.len() > MOST_ITEMS {
        return Err(unprocessable(format!("an order has 1 to {MOST_ITEMS} items")));
    }
    if new.items.iter().any(|item| item.sku.is_empty() || item.qty == 0) {
        return Err(unprocessable("an item needs a sku and a qty of at least 1"));
    }
    if !new.amount.get().starts_with(|c: char| c.is_ascii_digit()) {
        return Err(unprocessable("amount must be a number that isn't negative"));
    }
    if new.currency.len() != 3 || !new.currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(unprocessable("currency must be three letters, like EUR"));
    }
    let number = getrandom::u64().map_err(|error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(Order {
        order_id: format!("ord_{number:016x}"),
        account_id,
        amount: new.amount,
        currency: new.currency,
        items: new.items,
        status: "created",
    })
}

fn account(headers: &HeaderMap) -> Result<String, Refusal> {
    let value = headers.get("x-account-id").and_then(|value| value.to_str().ok()).map(str::trim);
    match value {
        Some(account) if !account.is_empty() => Ok(account.to_owned()),
        _ => Err(Refusal(StatusCode::BAD_REQUEST, "X-Account-Id is missing".to_owned())),
    }
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;

    const ORDER: &str = r#"{"items":[{"sku":"A","qty":2}],"amount":1200.10,"currency":"EUR"}"#;

    async fn send(
        router: &Router,
        method: &str,
        path: &str,
        account: &str,
        body: &str,
    ) -> (StatusCode, HeaderMap, String) {
        let request = Request::builder().method(method).uri(path).header("X-Account-Id", account);
        let request = request.body(Body::from(body.to_owned())).expect("a request");
        let response = router.clone().oneshot(request).await.expect("infallible");
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        (head.status, head.headers, String::from_utf8(body.to_vec()).expect("UTF-8"))
    }

    #[tokio::test]
    async fn an_order_is_created_with_its_amount_as_sent_and_read_back() {
        let router = router();
        for amount in ["1200.10", "1.2e3", "9007199254740993", "0.30000000000000000000000001"] {
            let order = ORDER.replace("1200.10", amount);
            let (status, headers, created) = send(&router, "POST", "/orders", "acc-1", &order).await;
            assert_eq!(status, StatusCode::CREATED);
            let location = headers["location"].to_str().expect("ASCII").to_owned();
            let id = location.strip_prefix("/orders/").expect("a path").to_owned();
            let expected = format!(
                r#"{{"order_id":"{id}","account_id":"acc-1","amount":{amount},"currency":"EUR","items":[{{"sku":"A","qty":2}}],"status":"created"}}"#
            );
            assert_eq!(created, expected);
            let (status, _, read) = send(&router, "GET", &location, "acc-1", "").await;
            assert_eq!((status, read), (StatusCode::OK, created));
            let (status, _, _) = send(&router, "GET", &location, "acc-2", "").await;
            assert_eq!(status, StatusCode::NOT_FOUND);
        }
    }

    #[tokio::test]
    async fn every_post_is_a_new_order() {
        let router = router();
        let (_, _, first) = send(&router, "POST", "/orders", "acc-1", ORDER).await;
        let (_, _, second) = send(&router, "POST", "/orders", "acc-1", ORDER).await;
        assert_ne!(first, second);
    }

    #[tokio::test]
    async fn what_is_no_order_is_refused_as_json() {
        let router = router();
        let large = ORDER.replace("EUR", &"E".repeat(LARGEST_ORDER));
        let cases = [
            ("not json", 400),
            ("{}", 400),
            (&ORDER.replace("2}", "-2}"), 400),
            (&ORDER.replace("2}", "0}"), 422),
            (&ORDER.replace(r#"{"sku":"A","qty":2}"#, ""), 422),
            (&ORDER.replace("1200.10", "\"1200.10\""), 422),
            (&ORDER.replace("1200.10", "-1"), 422),
            (&ORDER.replace("EUR", "euro"), 422),
            (&large, 413),
        ];
        for (body, expected) in cases {
            let (status, headers, answer) = send(&router, "POST", "/orders", "acc-1", body).await;
            assert_eq!(status.as_u16(), expected, "{answer}");
            assert_eq!(headers["content-type"], "application/json");
            assert!(answer.starts_with("{\"error\":"), "{answer}");
        }
        let (status, _, _) = send(&router, "POST", "/orders", " ", ORDER).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn the_oldest_order_goes_when_there_are_too_many() {
        let mut headers = HeaderMap::new();
        headers.insert("x-account-id", HeaderValue::from_static("acc-1"));
        let mut book = Book::default();
        let mut first = None;
        for _ in 0..=MOST_ORDERS {
            let order = Arc::new(new_order(&headers, ORDER.as_bytes()).ok().expect("an order"));
            first.get_or_insert_with(|| order.order_id.clone());
            book.add(order);
        }
        assert_eq!(book.orders.len(), MOST_ORDERS);
        assert!(!book.orders.contains_key(&first.expect("an order")));
    }

    #[tokio::test]
    async fn serving_ends_with_its_shutdown() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        serve(listener, std::future::ready(())).await.expect("an orderly end");
    }
}
