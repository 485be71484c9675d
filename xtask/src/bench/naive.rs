//! What one would write without oncekey, inside the plain proxy: a row committed before the request is passed on and updated,
//! in a second commit, with the answer.
//!
//! It is the fast half of the truth: it looks at no fingerprint, keeps no header, waits for nobody, and leaves a row that says
//! `processing` for ever when it is killed.

use std::net::SocketAddr;
use std::sync::Arc;

use http::uri::Authority;
use http::{HeaderName, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, Statement};

use super::plain::{Error, pass_on, pool, serve};
use crate::Result;

/// The table; the columns are the usual ones.
pub(super) const TABLE: &str = "CREATE TABLE IF NOT EXISTS naive_keys (
    id BIGSERIAL PRIMARY KEY, account_id TEXT NOT NULL, idempotency_key TEXT NOT NULL, request_hash TEXT NOT NULL,
    status TEXT NOT NULL, response_status INTEGER, response_body BYTEA, created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    expires_at TIMESTAMPTZ NOT NULL DEFAULT now() + interval '48 hours', UNIQUE (account_id, idempotency_key));
    CREATE INDEX IF NOT EXISTS naive_keys_expires_at ON naive_keys (expires_at)";

pub(super) const INSERT: &str = "INSERT INTO naive_keys (account_id, idempotency_key, request_hash, status) \
    VALUES ($1, $2, repeat('a', 64), 'processing') ON CONFLICT DO NOTHING";
pub(super) const UPDATE: &str = "UPDATE naive_keys SET status = 'completed', response_status = $3, response_body = $4 \
    WHERE account_id = $1 AND idempotency_key = $2";

/// Connections; two cores serve no more of them any faster.
const CONNECTIONS: usize = 32;

/// A connection with its statements prepared.
struct Prepared {
    client: Client,
    insert: Statement,
    update: Statement,
}

/// The connections that are free.
#[derive(Clone)]
struct Connections {
    back: mpsc::Sender<Prepared>,
    free: Arc<Mutex<mpsc::Receiver<Prepared>>>,
}

impl Connections {
    async fn take(&self) -> std::result::Result<Prepared, Error> {
        self.free.lock().await.recv().await.ok_or_else(|| "no connections".into())
    }

    async fn insert(&self, account: &str, key: &str) -> std::result::Result<(), Error> {
        let connection = self.take().await?;
        let inserted = connection.client.execute(&connection.insert, &[&account, &key]).await?;
        self.back.send(connection).await?;
        if inserted == 1 { Ok(()) } else { Err("the key is there".into()) }
    }

    async fn update(&self, account: &str, key: &str, status: u16, body: &[u8]) -> std::result::Result<(), Error> {
        let connection = self.take().await?;
        let status = i32::from(status);
        connection.client.execute(&connection.update, &[&account, &key, &status, &body]).await?;
        self.back.send(connection).await?;
        Ok(())
    }
}

/// Runs the proxy until it is killed.
pub(crate) fn proxy(upstream: SocketAddr, store: &str) -> Result {
    let authority: Authority = upstream.to_string().parse()?;
    super::runtime()?.block_on(async {
        let (back, free) = mpsc::channel(CONNECTIONS);
        let mut drivers = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (client, driver) = tokio_postgres::connect(store, NoTls).await?;
            drivers.spawn(driver);
            let (insert, update) = (client.prepare(INSERT).await?, client.prepare(UPDATE).await?);
            back.send(Prepared { client, insert, update }).await?;
        }
        let (pool, connections) = (pool(), Connections { back, free: Arc::new(Mutex::new(free)) });
        serve(move |request| guard(connections.clone(), pool.clone(), authority.clone(), request)).await
    })
}

type Pool = hyper_util::client::legacy::Client<hyper_util::client::legacy::connect::HttpConnector, Full<bytes::Bytes>>;

async fn guard(
    connections: Connections,
    pool: Pool,
    authority: Authority,
    request: Request<Incoming>,
) -> std::result::Result<Response<Full<bytes::Bytes>>, Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let field = |name: &'static str| -> std::result::Result<String, Error> {
        let value = head.headers.get(HeaderName::from_static(name)).ok_or("a request without a key or an account")?;
        Ok(value.to_str()?.to_owned())
    };
    let (account, key) = (field("x-account-id")?, field("idempotency-key")?);
    connections.insert(&account, &key).await?;
    let (head, body) = pass_on(pool, authority, Request::from_parts(head, Full::new(body))).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    connections.update(&account, &key, head.status.as_u16(), &body).await?;
    Ok(Response::from_parts(head, Full::new(body)))
}
