//! The processes that claim: heartbeat and retirement.

use std::time::Duration;

use oncekey_core::{OwnerId, Timestamp};
use tokio_postgres::types::Type;

use crate::error::Failure;
use crate::row::{At, micros};
use crate::session::Session;

/// See [`oncekey_store::Store::heartbeat`].
pub(crate) async fn heartbeat(session: &Session, owner: OwnerId, lease: Duration) -> Result<Timestamp, Failure> {
    const BEAT: &str = "\
        WITH clock AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now) \
        INSERT INTO idempotency_nodes AS n (owner, alive_until) \
        SELECT $2, now + $3 * interval '1 microsecond' FROM clock \
        ON CONFLICT (owner) DO UPDATE SET alive_until = excluded.alive_until \
        RETURNING (SELECT now FROM clock)";
    let (now, owner, lease) = (session.server().given_time(), &owner.as_bytes()[..], micros(lease));
    let params: &[_] = &[(&now as _, Type::TIMESTAMPTZ), (&owner as _, Type::BYTEA), (&lease as _, Type::INT8)];
    let rows = session.query(BEAT, params).await?;
    let row = rows.first().ok_or(Failure::Refused("a heartbeat was not answered"))?;
    Ok(row.try_get::<_, At>(0)?.0)
}

/// See [`oncekey_store::Store::retire`]. The row stays until a sweep has marked what the owner left behind.
pub(crate) async fn retire(session: &Session, owner: OwnerId) -> Result<(), Failure> {
    const RETIRE: &str = "UPDATE idempotency_nodes SET alive_until = '-infinity' WHERE owner = $1";
    session.query(RETIRE, &[(&&owner.as_bytes()[..], Type::BYTEA)]).await.map(drop)
}
