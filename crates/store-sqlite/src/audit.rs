//! The trail of what operators did: adding a line, listing them, dropping the oldest.

use oncekey_core::{RecordId, State, Timestamp};
use oncekey_store::{
    AUDIT_AGE, AUDIT_LINES, AuditFilter, AuditLine, AuditPage, Change, Cursor, Operator, Subject, Swept,
};
use rusqlite::{Connection, Row, params};

use crate::error::Failure;
use crate::listing::position;
use crate::writer::{Operation, Transaction};

/// See [`oncekey_store::Store::note_sweep`].
pub(crate) struct NoteSweep {
    pub(crate) swept: Swept,
    pub(crate) operator: Operator,
}

impl Operation for NoteSweep {
    type Answer = ();

    fn about(&self) -> Option<RecordId> {
        None
    }

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        let change = Change::Swept { deleted: self.swept.deleted, lapsed: self.swept.lapsed };
        let line = AuditLine { at: transaction.now(), operator: self.operator.clone(), change };
        transaction.write(None, |connection| add(connection, &line))
    }
}

/// Adds a line, in the transaction of its change.
pub(crate) fn add(connection: &Connection, line: &AuditLine) -> Result<(), Failure> {
    let AuditLine { at, operator, change } = line;
    let (who, via, origin) = (&operator.who, &operator.via, &operator.from);
    match change {
        Change::Record { subject, before, after, response_status } => connection
            .prepare_cached(
                "INSERT INTO audit (at, action, id, namespace, scope_source, scope, key, route, before, after, \
                 response_status, who, via, origin, reason, call) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
            )?
            .execute(params![
                at.as_micros(),
                if after.is_some() { "resolve" } else { "purge" },
                subject.id.as_bytes(),
                subject.namespace,
                subject.scope_source,
                subject.scope,
                subject.key,
                subject.route,
                before.name(),
                after.map(State::name),
                response_status,
                who,
                via,
                origin,
                operator.reason,
                operator.call,
            ])?,
        Change::Swept { deleted, lapsed } => connection
            .prepare_cached(
                "INSERT INTO audit (at, action, deleted, lapsed, who, via, origin, reason, call) \
                 VALUES (?1, 'sweep', ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                at.as_micros(),
                i64::try_from(*deleted).unwrap_or(i64::MAX),
                i64::try_from(*lapsed).unwrap_or(i64::MAX),
                who,
                via,
                origin,
                operator.reason,
                operator.call,
            ])?,
    };
    Ok(())
}

/// The newest lines that match, from `cursor` on.
pub(crate) fn list(
    connection: &Connection,
    filter: &AuditFilter,
    cursor: Option<Cursor>,
    limit: u32,
) -> Result<AuditPage, Failure> {
    let before = cursor.map_or(Ok(i64::MAX), |cursor| position(&cursor))?;
    let mut statement = connection.prepare_cached(if filter.id.is_some() { OF_RECORD } else { ALL })?;
    let id = filter.id.as_ref().map(RecordId::as_bytes);
    let wanted = i64::from(limit).saturating_add(1);
    let mut rows = statement.query(params![before, id, filter.namespace, filter.scope, filter.key, wanted])?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (mut page, mut last) = (AuditPage { lines: Vec::new(), next: None }, None);
    while let Some(row) = rows.next()? {
        if page.lines.len() == limit {
            page.next = last.map(|no: i64| Cursor(no.to_string()));
            break;
        }
        last = Some(row.get(0)?);
        page.lines.push(decode(row)?);
    }
    Ok(page)
}

macro_rules! list {
    ($id:literal) => {
        concat!(
            "SELECT no, at, id, namespace, scope_source, scope, key, route, before, after, response_status, \
             deleted, lapsed, who, via, origin, reason, call FROM audit WHERE no < ?1 AND ",
            $id,
            " AND (?3 IS NULL OR namespace = ?3) AND (?4 IS NULL OR scope = ?4) AND (?5 IS NULL OR key = ?5) \
             ORDER BY no DESC LIMIT ?6"
        )
    };
}

const ALL: &str = list!("?2 IS NULL");
const OF_RECORD: &str = list!("id = ?2 AND id IS NOT NULL");

fn decode(row: &Row<'_>) -> Result<AuditLine, Failure> {
    let state = |column| -> Result<Option<State>, Failure> {
        let name: Option<String> = row.get(column)?;
        name.map(|name| name.parse().map_err(|()| Failure::Refused("a line of the trail names no state"))).transpose()
    };
    let count = |column| -> Result<u64, Failure> {
        Ok(u64::try_from(row.get::<_, Option<i64>>(column)?.unwrap_or(0)).unwrap_or(0))
    };
    let change = match row.get::<_, Option<[u8; 16]>>(2)? {
        Some(id) => Change::Record {
            subject: Subject {
                id: RecordId::from_bytes(id),
                namespace: row.get(3)?,
                scope_source: row.get(4)?,
                scope: row.get(5)?,
                key: row.get(6)?,
                route: row.get(7)?,
            },
            before: state(8)?.unwrap_or(State::Unknown),
            after: state(9)?,
            response_status: row.get(10)?,
        },
        None => Change::Swept { deleted: count(11)?, lapsed: count(12)? },
    };
    let operator =
        Operator { who: row.get(13)?, via: row.get(14)?, from: row.get(15)?, reason: row.get(16)?, call: row.get(17)? };
    Ok(AuditLine { at: Timestamp::from_micros(row.get(1)?), operator, change })
}

/// The number of the last line that is too old or one too many at `now`, of at most `limit`, and how many those are.
/// They are the oldest: only they are read.
pub(crate) fn surplus(connection: &Connection, now: Timestamp, limit: u32) -> Result<Option<(i64, u32)>, Failure> {
    let newest: Option<i64> =
        connection.prepare_cached("SELECT max(no) FROM audit")?.query_row([], |row| row.get(0))?;
    let Some(newest) = newest else { return Ok(None) };
    let too_many = newest.saturating_sub(i64::try_from(AUDIT_LINES).unwrap_or(i64::MAX));
    let mut oldest = connection.prepare_cached("SELECT no, at FROM audit ORDER BY no LIMIT ?1")?;
    let mut rows = oldest.query([limit])?;
    let (mut last, mut number) = (None, 0);
    while let Some(row) = rows.next()? {
        let (no, at): (i64, i64) = (row.get(0)?, row.get(1)?);
        if no > too_many && Timestamp::from_micros(at).after(AUDIT_AGE) > now {
            break;
        }
        (last, number) = (Some(no), number + 1);
    }
    Ok(last.map(|last| (last, number)))
}

/// Drops the lines up to number `last`.
pub(crate) fn drop_to(connection: &Connection, last: i64) -> Result<(), Failure> {
    connection.prepare_cached("DELETE FROM audit WHERE no <= ?1")?.execute([last])?;
    Ok(())
}
