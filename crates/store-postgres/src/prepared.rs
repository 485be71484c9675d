//! Statements that are sent often, parsed and planned once for each connection.
//!
//! Parsing and planning costs the server more than finding a record. Only a connection that is known to be the server's own
//! (see `direct`) has prepared statements: a pooler's other clients choose names as we do, and one would run what another
//! prepared. There are as many as the program has constants for them.
//!
//! A plan lives as long as its connection, while the table grows from nothing to millions of records that nobody has analysed
//! yet. So the session is told beforehand never to choose what is right only for small tables.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use crate::direct;
use crate::error::Failure;
use crate::session::Param;

/// How often a prepared statement may turn out not to be there before this connection has none any more.
const LOSSES: u32 = 5;

/// What the session is set to: every plan goes by the indexes, and is made once.
const SETTINGS: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
                        SET enable_material = off; SET plan_cache_mode = force_generic_plan; SET jit = off";

/// The prepared statements of a connection, by their text.
#[derive(Default)]
pub(crate) struct Prepared {
    statements: Mutex<HashMap<&'static str, Arc<OnceCell<Statement>>>>,
    losses: AtomicU32,
}

impl Prepared {
    /// Sets the session up for short statements; nothing, and nothing is changed, where it isn't ours alone.
    pub(crate) async fn set_up(client: &Client) -> Result<Option<Self>, tokio_postgres::Error> {
        let Some(said) = direct::process(client).await else { return Ok(None) };
        let rows = client.query_typed("SELECT pg_backend_pid()", &[]).await?;
        if rows.first().and_then(|row| row.try_get::<_, i32>(0).ok()) != Some(said) {
            return Ok(None);
        }
        client.batch_execute(SETTINGS).await?;
        Ok(Some(Self::default()))
    }

    /// Runs a statement, prepared unless that failed too often. One that isn't there any more, or whose result has changed its
    /// type, was refused before anything was done: it is sent once more, unnamed.
    pub(crate) async fn query(
        &self,
        client: &Client,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Failure> {
        if self.losses.load(Ordering::Relaxed) < LOSSES {
            let cell = Arc::clone(self.statements.lock().entry(sql).or_default());
            match run(&cell, client, sql, params).await {
                Err(failure) if is_lost(&failure) => self.lose(sql, &cell),
                answer => return answer,
            }
        }
        Ok(client.query_typed(sql, params).await?)
    }

    /// Forgets a statement, unless another stands in its place by now.
    fn lose(&self, sql: &'static str, lost: &Arc<OnceCell<Statement>>) {
        let mut statements = self.statements.lock();
        if statements.get(sql).is_some_and(|cell| Arc::ptr_eq(cell, lost)) {
            statements.remove(sql);
            self.losses.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn run(
    cell: &OnceCell<Statement>,
    client: &Client,
    sql: &'static str,
    params: &[Param<'_>],
) -> Result<Vec<Row>, Failure> {
    let prepare = || async {
        let types: Vec<Type> = params.iter().map(|(_, kind)| kind.clone()).collect();
        client.prepare_typed(sql, &types).await.map_err(|error| Failure::from(error).while_preparing())
    };
    let statement = cell.get_or_try_init(prepare).await?;
    let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
    Ok(client.query(statement, &values).await?)
}

/// Whether a statement was refused because of its being prepared, and for nothing else.
fn is_lost(failure: &Failure) -> bool {
    let code = failure.refused_with();
    code.is_some_and(|code| {
        *code == SqlState::INVALID_SQL_STATEMENT_NAME
            || *code == SqlState::DUPLICATE_PSTATEMENT
            || *code == SqlState::FEATURE_NOT_SUPPORTED
    })
}
