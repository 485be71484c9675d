//! Transactional mode on SQLite, as handlers of axum and of hyper use it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use oncekey::sqlite::{NoTransaction, SqliteStore, SqliteTransaction, rusqlite};
use oncekey::{Oncekey, Options};
use oncekey_testkit::{Answer, Call, Client, TempDir};
use tokio::task::JoinSet;

/// An application whose orders are what the body says.
struct App {
    store: Arc<SqliteStore>,
    oncekey: Oncekey,
    client: Client,
    _serving: JoinSet<()>,
    _folder: TempDir,
}

async fn app() -> App {
    let folder = TempDir::new().unwrap();
    let store = oncekey::sqlite::open(folder.path().join("orders.db")).unwrap();
    store.make_tables("CREATE TABLE orders (what TEXT NOT NULL) STRICT").await.unwrap();
    let options = Options { transactions: Some(store.clone()), ..Options::default() };
    let oncekey = Oncekey::start(store.clone(), options).await.unwrap();
    let without_axum = axum::routing::any_service(tower::service_fn(place_without_axum));
    let app = Router::new().route("/orders", post(place)).route("/service", without_axum).layer(oncekey.layer());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, app).await.unwrap() });
    App { store, oncekey, client: Client::new(address), _serving: serving, _folder: folder }
}

impl App {
    async fn order(&self, key: &str, what: &'static str) -> Answer {
        self.client.call(&Call::post("/orders").scope("acc-1").key(key).body(what)).await.unwrap()
    }

    async fn rows(&self) -> i64 {
        let count = |connection: &rusqlite::Connection| {
            connection.query_row("SELECT count(*) FROM orders", [], |row| row.get(0))
        };
        self.store.query(count).await.unwrap().unwrap()
    }
}

/// Each kind of end, after a row was inserted.
async fn place(transaction: SqliteTransaction, what: String) -> Response {
    if what == "unchecked" {
        return (StatusCode::UNPROCESSABLE_ENTITY, "no order").into_response();
    }
    transaction.run(move |connection| {
        connection.execute("INSERT INTO orders VALUES (?1)", [&what])?;
        let answer = match &*what {
            "declined" => (StatusCode::CONFLICT, "declined").into_response(),
            "later" => (StatusCode::TOO_MANY_REQUESTS, "later").into_response(),
            "broken" => (StatusCode::INTERNAL_SERVER_ERROR, "broken").into_response(),
            "huge" => vec![b'x'; 9 * 1024 * 1024].into_response(),
            "wrong" => return Err(connection.execute("INSERT INTO nowhere VALUES (1)", []).unwrap_err()),
            "panic" => panic!("as the test wants it"),
            _ => (StatusCode::CREATED, [("x-order", "1")], format!("placed {what}")).into_response(),
        };
        Ok(answer)
    })
}

/// The same without axum's extractors: a function of hyper's.
async fn place_without_axum(request: Request) -> Result<Response, Infallible> {
    let transaction = match SqliteTransaction::of(request.extensions()) {
        Ok(transaction) => transaction,
        Err(NoTransaction) => return Ok(StatusCode::NOT_IMPLEMENTED.into_response()),
    };
    Ok(transaction.answer(|connection| {
        connection.execute("INSERT INTO orders VALUES ('by a function')", [])?;
        Ok::<_, rusqlite::Error>(http::Response::new("placed".into()))
    }))
}

#[tokio::test]
async fn an_answer_is_given_recorded_and_replayed_with_its_rows() {
    let app = app().await;
    let first = app.order("k", "tea").await;
    assert_eq!((first.status.as_u16(), first.header("x-order"), &first.body[..]), (201, Some("1"), &b"placed tea"[..]));
    let again = app.order("k", "tea").await;
    assert_eq!((again.status, again.header("x-order"), again.is_replay()), (first.status, Some("1"), true));
    assert_eq!((again.body, app.rows().await), (first.body, 1));
    app.oncekey.shutdown().await;
}

#[tokio::test]
async fn what_a_handler_declines_is_recorded_without_its_rows() {
    let app = app().await;
    for (what, status) in [("declined", 409), ("unchecked", 422)] {
        for replayed in [false, true] {
            let answer = app.order(what, what).await;
            assert_eq!((answer.status.as_u16(), answer.is_replay()), (status, replayed), "{what}");
        }
    }
    assert_eq!(app.rows().await, 0);
}

#[tokio::test]
async fn what_fails_leaves_nothing_and_runs_again() {
    let app = app().await;
    for (what, status) in [("later", 429), ("broken", 500), ("huge", 500), ("wrong", 500)] {
        for _ in 0..2 {
            let answer = app.order(what, what).await;
            assert_eq!((answer.status.as_u16(), answer.is_replay()), (status, false), "{what}: {answer:?}");
        }
    }
    for _ in 0..2 {
        let answer = app.order("panic", "panic").await;
        assert!(answer.status.is_server_error() && !answer.is_replay(), "{answer:?}");
    }
    assert_eq!(app.rows().await, 0);
    let records: u64 = oncekey::Store::stats(&*app.store).await.unwrap().records.values().sum();
    assert_eq!(records, 0);
}

#[tokio::test]
async fn a_request_without_a_key_has_no_transaction() {
    let app = app().await;
    let keyless = app.client.call(&Call::post("/orders").body("tea")).await.unwrap();
    assert_eq!(keyless.status, 500);
    let keyless = app.client.call(&Call::post("/service")).await.unwrap();
    assert_eq!((keyless.status.as_u16(), app.rows().await), (501, 0));
}

#[tokio::test]
async fn a_function_of_hypers_hands_over_its_work_too() {
    let app = app().await;
    for replayed in [false, true] {
        let call = Call::post("/service").scope("acc-1").key("k");
        let answer = app.client.call(&call).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.is_replay(), &answer.body[..]), (200, replayed, &b"placed"[..]));
    }
    assert_eq!(app.rows().await, 1);
}

/// What loses the extensions of the handler's answer loses its work: then nothing was done, and that is said.
#[tokio::test]
async fn work_that_gets_lost_on_its_way_is_not_taken_for_done() {
    let folder = TempDir::new().unwrap();
    let store = oncekey::sqlite::open(folder.path().join("orders.db")).unwrap();
    let options = Options { transactions: Some(store.clone()), ..Options::default() };
    let oncekey = Oncekey::start(store.clone(), options).await.unwrap();
    let losing = |mut response: Response| async move {
        response.extensions_mut().clear();
        response
    };
    let app = Router::new()
        .route("/orders", post(place))
        .layer(axum::middleware::map_response(losing))
        .layer(oncekey.layer());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(listener.local_addr().unwrap());
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, app).await.unwrap() });
    for _ in 0..2 {
        let answer = client.call(&Call::post("/orders").scope("acc-1").key("k").body("tea")).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.is_replay()), (500, false));
    }
}
