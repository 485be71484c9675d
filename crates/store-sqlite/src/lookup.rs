//! Reading single records.

use std::sync::Arc;

use oncekey_core::{RecordId, Timestamp};
use oncekey_store::Found;
use rusqlite::Connection;

use crate::error::Failure;
use crate::row::{self, columns};

/// The record under `id` with its response, as of `now`, which was read off the clock before: a heartbeat that comes in
/// between must not look lapsed.
pub(crate) fn read(connection: &Connection, id: RecordId, now: Timestamp) -> Result<Option<Found>, Failure> {
    const READ: &str = concat!(
        "SELECT ",
        columns!(),
        ", head, body FROM records LEFT JOIN nodes USING (owner) LEFT JOIN responses USING (seq) WHERE id = ?1"
    );
    let mut statement = connection.prepare_cached(READ)?;
    let mut rows = statement.query([id.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let stored = row::decode(row)?;
    let response = row::decode_response(row, row::COLUMNS, &stored.record)?;
    Ok(Some(Found { response: response.map(Arc::new), ..stored.found(now) }))
}

/// The records of those `ids` that have one, without responses.
pub(crate) fn peek(connection: &Connection, ids: &[RecordId], now: Timestamp) -> Result<Vec<Found>, Failure> {
    const PEEK: &str = concat!("SELECT ", columns!(), " FROM records LEFT JOIN nodes USING (owner) WHERE id = ?1");
    let mut statement = connection.prepare_cached(PEEK)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = statement.query([id.as_bytes()])?;
        if let Some(row) = rows.next()? {
            found.push(row::decode(row)?.found(now));
        }
    }
    Ok(found)
}
