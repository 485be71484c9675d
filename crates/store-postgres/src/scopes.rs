//! Counting the records of a scope, for quotas, and the index that it goes by: made by the first call that needs it, so that
//! nobody pays for it who doesn't count.

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::{Namespace, Scope};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::error::Failure;
use crate::session::{Server, Session};

/// Built beside all writing. No column of it ever changes, so outcomes still stay within their page.
const CREATE: &str = "CREATE INDEX CONCURRENTLY IF NOT EXISTS idempotency_keys_scope \
    ON idempotency_keys (account_id, scope_source, namespace)";

/// What a build that was broken off left behind.
const DROP: &str = "DROP INDEX CONCURRENTLY IF EXISTS idempotency_keys_scope";

/// Between two looks at another node's build. It has no event to wait for.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Makes the index, or waits for who makes it. May take minutes on a large table, and has a connection of its own for that.
/// Needs to own the table, unless the index is there.
pub(crate) async fn index(server: &Arc<Server>) -> Result<(), Failure> {
    const LOOK: &str = "SELECT i.indisvalid, EXISTS (SELECT FROM pg_stat_progress_create_index AS p \
            WHERE p.relid = i.indrelid AND p.datname = current_database()) \
        FROM pg_index AS i WHERE i.indexrelid = to_regclass('idempotency_keys_scope')";
    let session = Session::unhurried(server);
    loop {
        let rows = session.read(LOOK, &[]).await?;
        let found = rows.first().map(|row| Ok::<_, Failure>((row.try_get(0)?, row.try_get(1)?))).transpose()?;
        match found {
            Some((true, _)) => return Ok(()),
            Some((false, true)) => tokio::time::sleep(ASK_AGAIN).await,
            Some((false, false)) => alter(&session, DROP).await?,
            None => alter(&session, CREATE).await?,
        }
    }
}

/// Two nodes that build at once wait for each other's transactions, and the server ends one of them as a deadlock: it looks again.
async fn alter(session: &Session, sql: &str) -> Result<(), Failure> {
    match session.batch(sql).await {
        Err(failure) if failure.refused_with() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => Ok(()),
        altered => altered,
    }
}

/// See [`oncekey_store::Store::count_scope`].
pub(crate) async fn count(session: &Session, namespace: &Namespace, scope: &Scope, limit: u64) -> Result<u64, Failure> {
    const COUNT: &str = "SELECT count(*) FROM (SELECT FROM idempotency_keys \
        WHERE account_id = $1 AND scope_source = $2 AND namespace = $3 LIMIT $4) AS counted";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let params: &[_] = &[
        (&scope.value() as _, Type::TEXT),
        (&scope.source() as _, Type::TEXT),
        (&namespace.as_str() as _, Type::TEXT),
        (&limit as _, Type::INT8),
    ];
    let rows = session.read(COUNT, params).await?;
    let counted = rows.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0))?;
    Ok(u64::try_from(counted).unwrap_or(0))
}
