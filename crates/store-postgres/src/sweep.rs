//! Sweeping: one bounded step (D5). Any number of nodes may sweep at once; each passes over what another holds.

use oncekey_core::{Event, State, Timestamp, transition};
use oncekey_store::Swept;
use tokio_postgres::types::Type;

use crate::audit;
use crate::error::Failure;
use crate::row::At;
use crate::session::Session;

/// Marks claims that lapsed, chosen by the condition. As of the deadline, if that has passed: what a record counts as mustn't
/// depend on when it was swept. `$1` is the time of the sweep, `$2` the limit, `$3` the state.
macro_rules! mark {
    ($which:literal) => {
        concat!(
            "WITH lapsed AS MATERIALIZED ( \
                 SELECT k.id FROM idempotency_keys AS k WHERE k.status = 'processing' AND ",
            $which,
            " ORDER BY k.deadline LIMIT $2 FOR NO KEY UPDATE OF k SKIP LOCKED) \
             UPDATE idempotency_keys AS k SET status = $3, completed_at = least($1, k.deadline), \
                 expires_at = least($1, k.deadline) + k.unknown_ttl_micros * interval '1 microsecond', \
                 sweep_at = least($1, k.deadline) + k.unknown_ttl_micros * interval '1 microsecond', \
                 unknown_since = least($1, k.deadline) \
             FROM lapsed WHERE k.id = lapsed.id AND k.status = 'processing' RETURNING 1"
        )
    };
}

/// Those past their own deadline, from a little before where the last sweep came to.
const MARK_OVERDUE: &str = mark!(
    "k.deadline <= $1 AND k.deadline > \
         coalesce((SELECT least(lapsed_until, $1) - interval '1 minute' FROM idempotency_sweeps), '-infinity')"
);

/// Those of owners that are gone. Earlier ones are overdue. While no owner is gone, no claim is looked at: that is the usual
/// case, and joined the other way round it would read the whole table.
const MARK_ABANDONED: &str = mark!(
    "k.deadline > $1 AND EXISTS (SELECT FROM idempotency_nodes WHERE alive_until <= $1) \
         AND k.owner = ANY (ARRAY(SELECT owner FROM idempotency_nodes WHERE alive_until <= $1))"
);

/// `$2` is the limit. A claim that lapsed so long ago that it counts as absent goes whether it was marked or not.
/// Its steps go with it: a record without any costs a look into an index, which is empty if nobody saves steps.
const DELETE: &str = "\
    WITH expired AS MATERIALIZED ( \
        SELECT id FROM idempotency_keys WHERE sweep_at <= $1 AND (expires_at <= $1 OR (status = 'processing' \
            AND deadline + unknown_ttl_micros * interval '1 microsecond' <= $1)) \
        ORDER BY sweep_at LIMIT $2 FOR UPDATE SKIP LOCKED), \
    steps AS (DELETE FROM idempotency_steps AS s USING expired WHERE s.id = expired.id) \
    DELETE FROM idempotency_keys AS k USING expired WHERE k.id = expired.id RETURNING 1";

/// See [`oncekey_store::Store::sweep`].
pub(crate) async fn sweep(session: &Session, now: Timestamp, limit: u32) -> Result<Swept, Failure> {
    let Ok(state) = transition(Some(State::Processing), Event::Lapse, true) else { return Ok(Swept::default()) };
    let (at, limit) = (At(now), i64::from(limit));
    let run = async |sql: &str, limit: i64, state: Option<&str>| -> Result<i64, Failure> {
        let mut params: Vec<crate::session::Param<'_>> = vec![(&at, Type::TIMESTAMPTZ), (&limit, Type::INT8)];
        params.extend(state.as_ref().map(|state| (state as _, Type::TEXT)));
        Ok(i64::try_from(session.query(sql, &params).await?.len()).unwrap_or(i64::MAX))
    };
    // Marked first, so that a claim that lapsed long ago goes in one step.
    let overdue = run(MARK_OVERDUE, limit, Some(state.name())).await?;
    if overdue < limit {
        let reached = "UPDATE idempotency_sweeps SET lapsed_until = $1 WHERE lapsed_until <> $1";
        session.query(reached, &[(&at, Type::TIMESTAMPTZ)]).await?;
    }
    let abandoned = run(MARK_ABANDONED, limit - overdue, Some(state.name())).await?;
    let marked = overdue + abandoned;
    if marked < limit {
        // An owner without a heartbeat and one whose heartbeat has lapsed are the same.
        session.query("DELETE FROM idempotency_nodes WHERE alive_until <= $1", &[(&at, Type::TIMESTAMPTZ)]).await?;
    }
    let deleted = run(DELETE, limit, None).await?;
    let cut = audit::shorten(session, now, limit).await?;
    let count = |count: i64| u64::try_from(count).unwrap_or(0);
    Ok(Swept { deleted: count(deleted), lapsed: count(marked), more: [deleted, marked, cut].contains(&limit) })
}
