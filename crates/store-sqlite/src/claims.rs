//! Claiming: insert, or find what is in the way.

use std::sync::Arc;

use oncekey_core::{Record, RecordId, Timestamp};
use oncekey_store::change::{self, OnClaim};
use oncekey_store::{Claim, Claimed, Found};
use rusqlite::{Connection, params};

use crate::error::Failure;
use crate::row::{Stored, micros};
use crate::writer::{Operation, Transaction};

/// See [`oncekey_store::Store::claim`]. A record that is in the way comes back with its response only if that is small: the
/// writer, for whom everybody waits, reads no large bodies.
pub(crate) struct MakeClaim {
    id: RecordId,
    claim: Claim,
}

impl MakeClaim {
    pub(crate) fn new(claim: Claim) -> Self {
        Self { id: claim.identity.id(), claim }
    }

    #[cfg(test)]
    pub(crate) fn id(&self) -> RecordId {
        self.id
    }

    #[cfg(test)]
    pub(crate) fn token(&self) -> oncekey_core::Token {
        self.claim.token
    }
}

impl Operation for MakeClaim {
    type Answer = Claimed;

    fn about(&self) -> Option<RecordId> {
        Some(self.id)
    }

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<Claimed, Failure> {
        let now = transaction.now();
        match judge(transaction, self.id, &self.claim, now)? {
            (OnClaim::Put(record), stored) => {
                transaction.write(Some(self.id), |connection| put(connection, self.id, stored.as_ref(), &record))?;
                Ok(Claimed::Granted { attempt: record.attempts, now })
            }
            (OnClaim::Own { attempt }, _) => Ok(Claimed::Granted { attempt, now }),
            (OnClaim::Held, stored) => held(transaction, stored, now).map(Claimed::Held),
        }
    }
}

/// What a claim comes to, and the record that is there.
pub(crate) fn judge(
    transaction: &Transaction<'_>,
    id: RecordId,
    claim: &Claim,
    now: Timestamp,
) -> Result<(OnClaim, Option<Stored>), Failure> {
    let stored = transaction.find(id)?;
    let found = stored.as_ref().map(|stored| (&stored.record, stored.owner_alive(now)));
    if found.is_some_and(|(record, _)| record.identity != claim.identity) {
        return Err(Failure::Corrupt { id, what: "two operations share the id" });
    }
    Ok((change::on_claim(found, claim, now), stored))
}

/// The record that is in a claim's way, with its response if that is small.
pub(crate) fn held(
    transaction: &Transaction<'_>,
    stored: Option<Stored>,
    now: Timestamp,
) -> Result<Box<Found>, Failure> {
    let stored = stored.ok_or(Failure::Refused("no record, and the claim was refused"))?;
    let response = transaction.small_response(&stored)?.map(Arc::new);
    Ok(Box::new(Found { response, ..stored.found(now) }))
}

/// Inserts the record of a claim, after what it replaces is gone, with its response.
pub(crate) fn put(
    connection: &Connection,
    id: RecordId,
    replaced: Option<&Stored>,
    record: &Record,
) -> Result<(), Failure> {
    if let Some(replaced) = replaced {
        connection.prepare_cached("DELETE FROM records WHERE seq = ?1")?.execute([replaced.seq])?;
    }
    let mut insert = connection.prepare_cached(
        "INSERT INTO records (id, namespace, scope_source, scope, key, state, token, owner, fingerprint, recipe, \
         route, method, path, run, ttl, unknown_ttl, created, started, deadline, attempts, replays) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)",
    )?;
    let Record { identity, fingerprint, origin, lifetimes, times, .. } = record;
    insert.execute(params![
        id.as_bytes(),
        identity.namespace.as_str(),
        identity.scope.source(),
        identity.scope.value(),
        identity.key.as_str(),
        record.state.name(),
        record.token.as_bytes(),
        record.owner.as_bytes(),
        fingerprint.digest(),
        fingerprint.recipe().to_string(),
        origin.route,
        origin.method,
        origin.path,
        micros(lifetimes.run),
        micros(lifetimes.ttl),
        micros(lifetimes.unknown_ttl),
        times.created.as_micros(),
        times.started.as_micros(),
        times.deadline.as_micros(),
        record.attempts,
        i64::try_from(record.replays).unwrap_or(i64::MAX),
    ])?;
    Ok(())
}
