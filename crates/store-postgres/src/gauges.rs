//! What is watched all the time, at a cost that doesn't grow with the table.
//!
//! No index tells the states of records apart: outcomes are written without touching one. So the states of a large table are
//! estimated from a sample of its pages; what is unknown has an index of its own and is counted; and what is processing is
//! looked for at both ends of the claims that have not reached their deadline: the newest, and those closest to it.

use std::time::Duration;

use oncekey_core::State;
use oncekey_store::Gauges;
use tokio_postgres::types::Type;

use crate::error::Failure;
use crate::listing;
use crate::session::Session;

/// Pages of the table that are read for the counts: 4 MB. A table that has no more is counted whole.
const PAGES: f64 = 500.0;

/// Claims that are looked at, at each end.
const CLAIMS: i64 = 5_000;

/// Unknown records that are counted at most.
const UNKNOWN: i64 = 100_000;

/// Live claims, lapsed ones that no sweep has marked yet, and for how many microseconds the oldest live one has been running.
const PROCESSING: &str = "\
    WITH seen AS ( \
        (SELECT id, status, owner, started_at FROM idempotency_keys \
         WHERE deadline > coalesce($1, statement_timestamp()) ORDER BY deadline LIMIT $2) \
        UNION \
        (SELECT id, status, owner, started_at FROM idempotency_keys \
         WHERE deadline > coalesce($1, statement_timestamp()) ORDER BY deadline DESC LIMIT $2)), \
    open AS ( \
        SELECT seen.started_at, coalesce(n.alive_until > coalesce($1, statement_timestamp()), false) AS live \
        FROM seen LEFT JOIN idempotency_nodes AS n USING (owner) WHERE seen.status = 'processing') \
    SELECT count(*) FILTER (WHERE live), count(*) FILTER (WHERE NOT live), \
        (extract(epoch FROM coalesce($1, statement_timestamp()) - min(started_at) FILTER (WHERE live)) * 1000000)::bigint \
    FROM open";

const COUNT_UNKNOWN: &str = "\
    SELECT count(*) FROM (SELECT FROM idempotency_keys WHERE unknown_since IS NOT NULL LIMIT $1) AS unknown";

/// For how many microseconds the record has been expired that expired first. What a sweep looks at first expired first, give or
/// take how long executions take: hence a few more than one.
const EXPIRED: &str = "\
    SELECT (extract(epoch FROM coalesce($1, statement_timestamp()) - min(expires_at)) * 1000000)::bigint \
    FROM (SELECT expires_at FROM idempotency_keys WHERE sweep_at <= coalesce($1, statement_timestamp()) \
          ORDER BY sweep_at LIMIT 1000) AS first \
    WHERE expires_at <= coalesce($1, statement_timestamp())";

/// See [`oncekey_store::Store::gauges`].
pub(crate) async fn read(session: &Session) -> Result<Gauges, Failure> {
    let (mut stats, is_whole) = listing::count(session, PAGES).await?;
    let now = session.server().given_time();
    let no_answer = || Failure::Refused("the gauges were not answered");
    let looked = session.read(PROCESSING, &[(&now, Type::TIMESTAMPTZ), (&CLAIMS, Type::INT8)]).await?;
    let looked = looked.first().ok_or_else(no_answer)?;
    let oldest = looked.try_get(2)?;
    if !is_whole {
        let (live, lapsed): (i64, i64) = (looked.try_get(0)?, looked.try_get(1)?);
        let unknown = session.read(COUNT_UNKNOWN, &[(&UNKNOWN, Type::INT8)]).await?;
        let unknown: i64 = unknown.first().ok_or_else(no_answer)?.try_get(0)?;
        for (state, count) in [(State::Processing, live), (State::Unknown, unknown + lapsed)] {
            stats.records.insert(state.name(), u64::try_from(count).unwrap_or(0));
        }
    }
    let expired = session.read(EXPIRED, &[(&now, Type::TIMESTAMPTZ)]).await?;
    let expired = expired.first().ok_or_else(no_answer)?.try_get(0)?;
    Ok(Gauges { stats, oldest_processing: age(oldest), oldest_expired: age(expired) })
}

fn age(micros: Option<i64>) -> Option<Duration> {
    micros.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}
