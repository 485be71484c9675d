//! Sweeping: one bounded step (D5).

use oncekey_core::{Event, RecordId, State, Timestamp, transition};
use oncekey_store::Swept;
use rusqlite::{Connection, params};

use crate::audit;
use crate::error::Failure;
use crate::writer::{Operation, Transaction};

/// Bytes of bodies that a step deletes at most: freeing a body means reading all its pages, and claims wait meanwhile.
const STEP_BYTES: u64 = 8 * 1024 * 1024;

/// See [`oncekey_store::Store::sweep`]. It goes by columns, not by whole records, so that a damaged one can't keep the
/// others from being swept.
pub(crate) struct Sweep {
    pub(crate) now: Timestamp,
    pub(crate) limit: u32,
}

impl Operation for Sweep {
    type Answer = Swept;

    fn about(&self) -> Option<RecordId> {
        None
    }

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<Swept, Failure> {
        let limit = u64::from(self.limit);
        // Marked first, so that a claim that lapsed long ago goes in one step.
        let lapsed = lapsed(transaction.connection(), self)?;
        if !lapsed.is_empty() {
            transaction.write(None, |connection| mark(connection, &lapsed))?;
        }
        let (expired, is_cut_short) = expired(transaction.connection(), self)?;
        if !expired.is_empty() {
            transaction.write(None, |connection| delete(connection, &expired))?;
        }
        let owners_gone = "SELECT EXISTS (SELECT 1 FROM nodes WHERE alive_until <= ?1)";
        let now = self.now.as_micros();
        if transaction.connection().prepare_cached(owners_gone)?.query_row([now], |row| row.get(0))? {
            // An owner without a heartbeat and one whose heartbeat has lapsed are the same.
            transaction.write(None, |connection| {
                Ok(connection.prepare_cached("DELETE FROM nodes WHERE alive_until <= ?1")?.execute([now])?)
            })?;
        }
        let surplus = audit::surplus(transaction.connection(), self.now, self.limit)?;
        if let Some((last, _)) = surplus {
            transaction.write(None, |connection| audit::drop_to(connection, last))?;
        }
        let (deleted, lapsed) = (expired.len() as u64, lapsed.len() as u64);
        let cut_trail = surplus.is_some_and(|(_, number)| number == self.limit);
        Ok(Swept { deleted, lapsed, more: is_cut_short || cut_trail || deleted == limit || lapsed == limit })
    }
}

/// A claim that lapsed: its row, and what it is marked with.
struct Lapsed {
    seq: i64,
    ended: Timestamp,
    expires: Timestamp,
}

fn lapsed(connection: &Connection, sweep: &Sweep) -> Result<Vec<Lapsed>, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT seq, deadline, unknown_ttl FROM records INDEXED BY records_open LEFT JOIN nodes USING (owner) \
         WHERE state IN ('processing', 'unknown') AND state = 'processing' \
         AND (deadline <= ?1 OR alive_until IS NULL OR alive_until <= ?1) LIMIT ?2",
    )?;
    let rows = select.query_map(params![sweep.now.as_micros(), sweep.limit], |row| {
        let (deadline, unknown_ttl): (i64, i64) = (row.get(1)?, row.get(2)?);
        // As of the deadline, if it has passed: what a record counts as mustn't depend on when it was swept.
        let ended = sweep.now.min(Timestamp::from_micros(deadline));
        let expires = Timestamp::from_micros(ended.as_micros().saturating_add(unknown_ttl));
        Ok(Lapsed { seq: row.get(0)?, ended, expires })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn mark(connection: &Connection, lapsed: &[Lapsed]) -> Result<(), Failure> {
    let Ok(state) = transition(Some(State::Processing), Event::Lapse, true) else { return Ok(()) };
    let mut update =
        connection.prepare_cached("UPDATE records SET state = ?2, ended = ?3, expires = ?4 WHERE seq = ?1")?;
    for Lapsed { seq, ended, expires } in lapsed {
        update.execute(params![seq, state.name(), ended.as_micros(), expires.as_micros()])?;
    }
    Ok(())
}

/// The rows to delete, and whether their bodies were too much for one step.
fn expired(connection: &Connection, sweep: &Sweep) -> Result<(Vec<i64>, bool), Failure> {
    let mut select = connection.prepare_cached(
        "SELECT records.seq, coalesce(length(body), 0) FROM records INDEXED BY records_expiry \
         LEFT JOIN responses USING (seq) WHERE expires <= ?1 ORDER BY expires LIMIT ?2",
    )?;
    let mut rows = select.query(params![sweep.now.as_micros(), sweep.limit])?;
    let (mut expired, mut bytes) = (Vec::new(), 0_u64);
    while let Some(row) = rows.next()? {
        if bytes >= STEP_BYTES {
            return Ok((expired, true));
        }
        expired.push(row.get(0)?);
        bytes = bytes.saturating_add(u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0));
    }
    Ok((expired, false))
}

fn delete(connection: &Connection, expired: &[i64]) -> Result<(), Failure> {
    let mut delete = connection.prepare_cached("DELETE FROM records WHERE seq = ?1")?;
    for seq in expired {
        delete.execute([seq])?;
    }
    Ok(())
}
