//! An operator's purge.

use oncekey_core::{RecordId, State};
use oncekey_store::Purged;
use rusqlite::{OptionalExtension, params};

use crate::error::Failure;
use crate::writer::{Operation, Transaction};

/// See [`oncekey_store::Store::purge`]. It goes by columns, not by the whole record: purging is how an operator gets rid
/// of a damaged one.
pub(crate) struct Purge(pub(crate) RecordId);

impl Operation for Purge {
    type Answer = Purged;

    fn about(&self) -> Option<RecordId> {
        Some(self.0)
    }

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<Purged, Failure> {
        let now = transaction.now().as_micros();
        let mut select = transaction.connection().prepare_cached(
            "SELECT seq, state = ?2 AND deadline > ?3 AND coalesce(alive_until > ?3, FALSE) \
             FROM records LEFT JOIN nodes USING (owner) WHERE id = ?1",
        )?;
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?));
        let found = select.query_row(params![self.0.as_bytes(), State::Processing.name(), now], read).optional()?;
        match found {
            None => Ok(Purged::NotFound),
            Some((_, true)) => Ok(Purged::Live),
            Some((seq, false)) => transaction.write(Some(self.0), |connection| {
                connection.prepare_cached("DELETE FROM records WHERE seq = ?1")?.execute([seq])?;
                Ok(Purged::Done)
            }),
        }
    }
}
