//! The trail of what operators did: listing its lines, dropping the oldest, and the one line that no order adds.

use oncekey_core::{RecordId, State, Timestamp};
use oncekey_store::{
    AUDIT_AGE, AUDIT_LINES, AuditFilter, AuditLine, AuditPage, Change, Cursor, Operator, Subject, Swept,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::Failure;
use crate::listing::position;
use crate::operating::Signature;
use crate::row::{At, micros};
use crate::session::Session;

/// See [`oncekey_store::Store::note_sweep`].
pub(crate) async fn note_sweep(session: &Session, swept: Swept, operator: &Operator) -> Result<(), Failure> {
    const NOTE: &str = "\
        INSERT INTO idempotency_audit (at, action, deleted, lapsed, who, via, origin, reason, call) \
        VALUES (coalesce($1, statement_timestamp()), 'sweep', $2, $3, $4, $5, $6, $7, $8)";
    let now = session.server().given_time();
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let (deleted, lapsed) = (count(swept.deleted), count(swept.lapsed));
    let Signature { who, via, origin, reason, call } = Signature::of(Some(operator));
    let params = [
        (&now as _, Type::TIMESTAMPTZ),
        (&deleted as _, Type::INT8),
        (&lapsed as _, Type::INT8),
        (&who as _, Type::TEXT),
        (&via as _, Type::TEXT),
        (&origin as _, Type::TEXT),
        (&reason as _, Type::TEXT),
        (&call as _, Type::TEXT),
    ];
    session.query(NOTE, &params).await.map(drop)
}

/// See [`oncekey_store::Store::audit`].
pub(crate) async fn list(
    session: &Session,
    filter: &AuditFilter,
    cursor: Option<Cursor>,
    limit: u32,
) -> Result<AuditPage, Failure> {
    const LIST: &str = "\
        SELECT no, at, id, namespace, scope_source, account_id, idempotency_key, route, before, after, response_status, \
            deleted, lapsed, who, via, origin, reason, call \
        FROM idempotency_audit WHERE no < $1 AND ($2 IS NULL OR id = $2) AND ($3 IS NULL OR namespace = $3) \
            AND ($4 IS NULL OR account_id = $4) AND ($5 IS NULL OR idempotency_key = $5) ORDER BY no DESC LIMIT $6";
    let before = cursor.map_or(Ok(i64::MAX), |cursor| position(&cursor))?;
    let id = filter.id.as_ref().map(|id| &id.as_bytes()[..]);
    let wanted = i64::from(limit).saturating_add(1);
    let params = [
        (&before as _, Type::INT8),
        (&id as _, Type::BYTEA),
        (&filter.namespace as _, Type::TEXT),
        (&filter.scope as _, Type::TEXT),
        (&filter.key as _, Type::TEXT),
        (&wanted as _, Type::INT8),
    ];
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let rows = session.read(LIST, &params).await?;
    let lines = rows.iter().take(limit).map(decode).collect::<Result<Vec<_>, _>>()?;
    let last = rows.get(lines.len().wrapping_sub(1)).filter(|_| rows.len() > limit);
    let next = last.map(|row| row.try_get::<_, i64>(0)).transpose()?.map(|no| Cursor(no.to_string()));
    Ok(AuditPage { lines, next })
}

fn decode(row: &Row) -> Result<AuditLine, Failure> {
    let state = |column: usize| -> Result<Option<State>, Failure> {
        let name: Option<&str> = row.try_get(column)?;
        name.map(|name| name.parse().map_err(|()| Failure::Refused("a line of the trail names no state"))).transpose()
    };
    let count = |column: usize| -> Result<u64, Failure> {
        Ok(u64::try_from(row.try_get::<_, Option<i64>>(column)?.unwrap_or(0)).unwrap_or(0))
    };
    let change = match row.try_get::<_, Option<&[u8]>>(2)? {
        Some(id) => Change::Record {
            subject: Subject {
                id: RecordId::from_bytes(id.try_into().map_err(|_| Failure::Refused("an id has the wrong length"))?),
                namespace: row.try_get(3)?,
                scope_source: row.try_get(4)?,
                scope: row.try_get(5)?,
                key: row.try_get(6)?,
                route: row.try_get(7)?,
            },
            before: state(8)?.unwrap_or(State::Unknown),
            after: state(9)?,
            response_status: row.try_get::<_, Option<i16>>(10)?.and_then(|status| u16::try_from(status).ok()),
        },
        None => Change::Swept { deleted: count(11)?, lapsed: count(12)? },
    };
    let operator = Operator {
        who: row.try_get(13)?,
        via: row.try_get(14)?,
        from: row.try_get(15)?,
        reason: row.try_get(16)?,
        call: row.try_get(17)?,
    };
    Ok(AuditLine { at: row.try_get::<_, At>(1)?.0, operator, change })
}

/// Drops at most `limit` of the oldest lines, those that are too old or too many at `now`; says how many.
pub(crate) async fn shorten(session: &Session, now: Timestamp, limit: i64) -> Result<i64, Failure> {
    // Only the oldest are looked at, and a trail of the usual length costs a page.
    const SHORTEN: &str = "\
        WITH oldest AS MATERIALIZED (SELECT no, at FROM idempotency_audit ORDER BY no LIMIT $2), \
        surplus AS MATERIALIZED ( \
            SELECT a.no FROM idempotency_audit AS a JOIN oldest USING (no) \
            WHERE oldest.at <= $1 - $3 * interval '1 microsecond' \
                OR oldest.no <= (SELECT max(no) FROM idempotency_audit) - $4 \
            FOR UPDATE OF a SKIP LOCKED) \
        DELETE FROM idempotency_audit AS a USING surplus WHERE a.no = surplus.no RETURNING 1";
    let (at, age) = (At(now), micros(AUDIT_AGE));
    let lines = i64::try_from(AUDIT_LINES).unwrap_or(i64::MAX);
    let params =
        [(&at as _, Type::TIMESTAMPTZ), (&limit as _, Type::INT8), (&age as _, Type::INT8), (&lines as _, Type::INT8)];
    Ok(i64::try_from(session.query(SHORTEN, &params).await?.len()).unwrap_or(i64::MAX))
}
