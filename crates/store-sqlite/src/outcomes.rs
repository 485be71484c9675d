//! Writing how a claim ended: an owner's outcome and an operator's verdict change the same columns.

use oncekey_core::response::RecordedBody;
use oncekey_core::{Event, Record, RecordId, RecordedResponse, Timestamp, Token};
use oncekey_store::change::{self, OnOutcome};
use oncekey_store::{Outcome, Recorded};
use rusqlite::{Connection, params};

use crate::error::Failure;
use crate::writer::{Operation, Transaction};

/// See [`oncekey_store::Store::record`].
pub(crate) struct RecordOutcome {
    pub(crate) id: RecordId,
    pub(crate) token: Token,
    pub(crate) outcome: Outcome,
}

impl Operation for RecordOutcome {
    type Answer = Recorded;

    fn about(&self) -> Option<RecordId> {
        Some(self.id)
    }

    fn size(&self) -> usize {
        self.outcome.response.as_deref().map_or(0, body_size)
    }

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<Recorded, Failure> {
        check_event(self.outcome.event)?;
        let now = transaction.now();
        let Some(stored) = transaction.find(self.id)? else { return Ok(Recorded::Fenced(None)) };
        let status = self.outcome.response.as_ref().map(|response| response.status.as_u16());
        match change::on_outcome(&stored.record, self.token, self.outcome.event, status, now) {
            OnOutcome::Put(record) => {
                let response = self.outcome.response.as_deref();
                transaction.write(Some(self.id), |connection| end(connection, stored.seq, &record, response))?;
                Ok(Recorded::Written { expires: record.times.expires.unwrap_or(now), now })
            }
            OnOutcome::Already(expires) => Ok(Recorded::Written { expires, now }),
            OnOutcome::Fenced => Ok(Recorded::Fenced(Some(Box::new(stored.found(now))))),
        }
    }
}

/// Fails unless it is an event that ends a claim.
pub(crate) fn check_event(event: Event) -> Result<(), Failure> {
    match event {
        Event::Complete | Event::Fail | Event::WriteOff => Ok(()),
        _ => Err(Failure::Refused("only complete, fail and write-off end a claim")),
    }
}

/// The bytes of its body that are stored.
pub(crate) fn body_size(response: &RecordedResponse) -> usize {
    body(response).map_or(0, <[u8]>::len)
}

fn body(response: &RecordedResponse) -> Option<&[u8]> {
    match &response.body {
        RecordedBody::Stored(bytes) => Some(bytes),
        RecordedBody::NotStored => None,
    }
}

/// Stores a record that has ended, and its response in place of an earlier one.
pub(crate) fn end(
    connection: &Connection,
    seq: i64,
    record: &Record,
    response: Option<&RecordedResponse>,
) -> Result<(), Failure> {
    let mut update = connection.prepare_cached(
        "UPDATE records SET state = ?2, token = ?3, ended = ?4, expires = ?5, response_status = ?6 WHERE seq = ?1",
    )?;
    update.execute(params![
        seq,
        record.state.name(),
        record.token.as_bytes(),
        record.times.ended.map(Timestamp::as_micros),
        record.times.expires.map(Timestamp::as_micros),
        record.response_status,
    ])?;
    match response {
        Some(response) => connection
            .prepare_cached("INSERT OR REPLACE INTO responses (seq, head, body) VALUES (?1, ?2, ?3)")?
            .execute(params![seq, response.encode_head(), body(response)])?,
        None => connection.prepare_cached("DELETE FROM responses WHERE seq = ?1")?.execute([seq])?,
    };
    Ok(())
}
