//! Connections: opened when needed, given up when broken, and shared by many calls at a time.
//!
//! A connection carries statements one after another without waiting for each answer in between (pipelining), so a few of
//! them serve all readers of a process. Every statement is a transaction of its own: nothing is ever left open on the server
//! between two messages of ours, so a process that is paused holds up nobody, and PgBouncer may hand each statement to another
//! connection. Those that are sent often are prepared where the connection is the server's own (see `prepared`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oncekey_store::Clock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_postgres::error::Severity;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Connection, Row};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::task::TaskTracker;

use crate::error::Failure;
use crate::prepared::Prepared;
use crate::row::At;
use crate::{PostgresOptions, tls};

/// How long a statement may take that reads or sweeps much.
const LONG: Duration = Duration::from_mins(10);

/// A parameter and its type: nothing is left to the server to guess.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// How to reach the server; shared by all connections.
pub(crate) struct Server {
    options: PostgresOptions,
    tls: MakeRustlsConnect,
    tasks: TaskTracker,
}

/// A live connection.
#[derive(Clone)]
struct Live {
    client: Arc<Client>,
    /// Set when the server has warned of something since it was last looked at.
    warned: Arc<AtomicBool>,
    prepared: Option<Arc<Prepared>>,
}

/// A place for one connection.
pub(crate) struct Session {
    server: Arc<Server>,
    live: Mutex<Option<Live>>,
    patience: Option<Duration>,
    /// Whether all its statements are short ones, that are planned for indexes.
    is_short: bool,
}

impl Server {
    pub(crate) fn new(options: PostgresOptions) -> Result<Arc<Self>, Failure> {
        let tls = tls::connector(&options.verify)?;
        Ok(Arc::new(Self { options, tls, tasks: TaskTracker::new() }))
    }

    pub(crate) fn options(&self) -> &PostgresOptions {
        &self.options
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// The time that statements go by instead of the server's own, in tests.
    pub(crate) fn given_time(&self) -> Option<At> {
        self.options.clock.as_ref().map(|clock: &Arc<dyn Clock>| At(clock.now()))
    }

    async fn connect(&self, is_short: bool) -> Result<Live, Failure> {
        let (client, connection) = self.options.config.connect(self.tls.clone()).await?;
        let warned = Arc::new(AtomicBool::new(false));
        self.tasks.spawn(drive(connection, warned.clone()));
        let prepared = if is_short { Prepared::set_up(&client).await?.map(Arc::new) } else { None };
        Ok(Live { client: Arc::new(client), warned, prepared })
    }
}

impl Live {
    async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        Ok(self.client.query_typed(sql, params).await?)
    }

    async fn query_often(&self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        match &self.prepared {
            Some(prepared) => prepared.query(&self.client, sql, params).await,
            None => self.query(sql, params).await,
        }
    }

    /// Whether a reading failed with its connection.
    fn broke_by(&self, failure: &Failure) -> bool {
        let (Failure::Postgres(error) | Failure::Unreached(error)) = failure else { return false };
        self.client.is_closed() || error.is_closed()
    }
}

/// Moves a connection's messages until its client is gone or it breaks.
async fn drive<S, T>(mut connection: Connection<S, T>, warned: Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = std::future::poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(AsyncMessage::Notice(notice)) if notice.parsed_severity() == Some(Severity::Warning) => {
                tracing::warn!(code = notice.code().code(), "PostgreSQL warns: {}", notice.message());
                warned.store(true, Ordering::Release);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "a connection to PostgreSQL broke");
                return;
            }
        }
    }
}

impl Session {
    /// A place for a connection whose statements are bounded by the options' patience.
    pub(crate) fn new(server: &Arc<Server>) -> Self {
        let patience = Some(server.options.patience);
        Self { server: Arc::clone(server), live: Mutex::default(), patience, is_short: true }
    }

    /// One for statements that may take long, but not for ever: a server that hangs would stop all sweeping.
    pub(crate) fn patient(server: &Arc<Server>) -> Self {
        Self { patience: Some(LONG), is_short: false, ..Self::new(server) }
    }

    /// One for what takes as long as it takes: making an index.
    pub(crate) fn unhurried(server: &Arc<Server>) -> Self {
        Self { patience: None, is_short: false, ..Self::new(server) }
    }

    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Connects if there is no connection. Nothing was sent when this fails.
    pub(crate) async fn connect(&self) -> Result<(), Failure> {
        self.live().await.map(drop)
    }

    async fn live(&self) -> Result<Live, Failure> {
        let mut live = self.live.lock().await;
        if let Some(live) = live.as_ref().filter(|live| !live.client.is_closed()) {
            return Ok(live.clone());
        }
        let fresh = match timeout(self.server.options.patience, self.server.connect(self.is_short)).await {
            Ok(connected) => connected.map_err(Failure::while_connecting)?,
            Err(_) => return Err(Failure::Refused("the server could not be reached in time")),
        };
        *live = Some(fresh.clone());
        Ok(fresh)
    }

    /// Gives up a connection, unless it is another's by now.
    async fn give_up(&self, broken: &Live) {
        let mut live = self.live.lock().await;
        if live.as_ref().is_some_and(|live| Arc::ptr_eq(&live.client, &broken.client)) {
            *live = None;
        }
    }

    /// Runs a statement, a transaction of its own; it has been committed when this returns. Sent when first polled after the
    /// connection is there; dropping the future cancels nothing on the server.
    pub(crate) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        let live = self.live().await?;
        self.bounded(&live, live.query(sql, params)).await
    }

    /// The same of a statement that is sent often, always with the same types.
    pub(crate) async fn query_often(&self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        let live = self.live().await?;
        self.bounded(&live, live.query_often(sql, params)).await
    }

    async fn bounded<T>(&self, live: &Live, asking: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let Some(patience) = self.patience else { return asking.await };
        if let Ok(answer) = timeout(patience, asking).await {
            return answer;
        }
        self.give_up(live).await;
        Err(Failure::TookTooLong)
    }

    /// Runs a statement that changes nothing. One whose connection turns out to be broken is sent again on a new one: a
    /// server that was restarted costs its readers nothing.
    pub(crate) async fn read(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        let live = self.live().await?;
        match self.bounded(&live, live.query(sql, params)).await {
            Err(failure) if live.broke_by(&failure) => {
                self.give_up(&live).await;
                self.query(sql, params).await
            }
            answer => answer,
        }
    }

    /// The same of a statement that is sent often.
    pub(crate) async fn read_often(&self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        let live = self.live().await?;
        match self.bounded(&live, live.query_often(sql, params)).await {
            Err(failure) if live.broke_by(&failure) => {
                self.give_up(&live).await;
                self.query_often(sql, params).await
            }
            answer => answer,
        }
    }

    /// Runs several statements in the simple protocol.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), Failure> {
        Ok(self.live().await?.client.batch_execute(sql).await?)
    }

    /// Whether the server has warned since this was last asked.
    pub(crate) async fn take_warning(&self) -> bool {
        self.live.lock().await.as_ref().is_some_and(|live| live.warned.swap(false, Ordering::AcqRel))
    }
}
