//! What `cargo xtask bench transactions` measures: a handler of axum that inserts an order and answers, as one writes it without
//! oncekey and in transactional mode. `HOW STORE ANSWER`: how the order is inserted, where, and the body of every answer.

use std::io::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::post};
use deadpool_postgres::{Manager, Pool};
use oncekey::postgres::{PgTransaction, PgTransactions, TransactionOptions};
use oncekey::sqlite::{SqliteTransaction, rusqlite::Connection};
use oncekey::{Oncekey, Options, Store, Transactions};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio_postgres::NoTls;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// As many as there are clients: nobody waits for one.
const POOL: usize = 32;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || arguments.next().ok_or("HOW STORE ANSWER");
    let (how, store, answer) = (argument()?, argument()?, Answer(argument()?.leak()));
    let (app, _oncekey) = match store.strip_prefix("sqlite:") {
        Some(path) => in_sqlite(&how, path, answer).await?,
        None => in_postgres(&how, &store, answer).await?,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "listening on {}", listener.local_addr()?)?;
    Ok(axum::serve(axum::serve::ListenerExt::tap_io(listener, |tcp| drop(tcp.set_nodelay(true))), app).await?)
}

#[derive(Clone, Copy)]
struct Answer(&'static str);

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, [(header::CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}

/// The database failed, which ends the benchmark.
struct Failed;

impl<E: std::error::Error> From<E> for Failed {
    fn from(error: E) -> Self {
        eprintln!("{error}");
        Self
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

async fn guarded(
    app: Router,
    store: Arc<dyn Store>,
    transactions: Arc<dyn Transactions>,
) -> Result<(Router, Option<Oncekey>), Failure> {
    let oncekey = Oncekey::start(store, Options { transactions: Some(transactions), ..Options::default() }).await?;
    Ok((app.layer(oncekey.layer()), Some(oncekey)))
}

async fn in_postgres(how: &str, url: &str, answer: Answer) -> Result<(Router, Option<Oncekey>), Failure> {
    const TABLE: &str = "CREATE TABLE IF NOT EXISTS orders (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
                         content TEXT NOT NULL)";
    const INSERT: &str = "INSERT INTO orders (content) VALUES ($1)";
    type Shared = State<(Pool, Answer)>;
    async fn statement(State((pool, answer)): Shared, order: String) -> Result<Answer, Failed> {
        let client = pool.get().await?;
        client.execute(&client.prepare_cached(INSERT).await?, &[&order]).await?;
        Ok(answer)
    }
    async fn transaction(State((pool, answer)): Shared, order: String) -> Result<Answer, Failed> {
        let mut client = pool.get().await?;
        let transaction = client.transaction().await?;
        transaction.execute(&transaction.prepare_cached(INSERT).await?, &[&order]).await?;
        transaction.commit().await?;
        Ok(answer)
    }
    async fn guarding(State((_, answer)): Shared, tx: PgTransaction, order: String) -> Result<Answer, Failed> {
        tx.execute(&tx.prepare_cached(INSERT).await?, &[&order]).await?;
        Ok(answer)
    }
    let pool = Pool::builder(Manager::new(url.parse()?, NoTls)).max_size(POOL).build()?;
    pool.get().await?.batch_execute(TABLE).await?;
    let shared = (pool.clone(), answer);
    let app = |route| Router::new().route("/orders", route).with_state(shared);
    match how {
        "statement" => Ok((app(post(statement)), None)),
        "transaction" => Ok((app(post(transaction)), None)),
        _ => {
            let store = oncekey::postgres::open(url).await?;
            let transactions = PgTransactions::with_pool(&store, pool, TransactionOptions::default()).await?;
            guarded(app(post(guarding)), store, Arc::new(transactions)).await
        }
    }
}

async fn in_sqlite(how: &str, path: &str, answer: Answer) -> Result<(Router, Option<Oncekey>), Failure> {
    const TABLE: &str = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, content TEXT NOT NULL) STRICT";
    const INSERT: &str = "INSERT INTO orders (content) VALUES (?1)";
    type Shared = State<(Arc<Mutex<Connection>>, Answer)>;
    async fn statement(State((connection, answer)): Shared, order: String) -> Result<Answer, Failed> {
        let connection = connection.lock_owned().await;
        tokio::task::spawn_blocking(move || connection.prepare_cached(INSERT)?.execute([order])).await??;
        Ok(answer)
    }
    if how == "statement" {
        let connection = Connection::open(path)?;
        connection.execute_batch(&format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; {TABLE}"))?;
        let shared = (Arc::new(Mutex::new(connection)), answer);
        return Ok((Router::new().route("/orders", post(statement)).with_state(shared), None));
    }
    let store = oncekey::sqlite::open(path)?;
    store.make_tables(TABLE).await?;
    let guarding = async move |transaction: SqliteTransaction, order: String| {
        transaction.run(move |connection| connection.prepare_cached(INSERT)?.execute([order]).map(|_| answer))
    };
    guarded(Router::new().route("/orders", post(guarding)), store.clone(), store).await
}
