//! The processes that claim: heartbeat and retirement.

use std::time::Duration;

use oncekey_core::{OwnerId, RecordId, Timestamp};
use rusqlite::params;

use crate::error::Failure;
use crate::writer::{Operation, Transaction};

/// See [`oncekey_store::Store::heartbeat`].
pub(crate) struct Heartbeat {
    pub(crate) owner: OwnerId,
    pub(crate) lease: Duration,
}

impl Operation for Heartbeat {
    type Answer = Timestamp;

    fn about(&self) -> Option<RecordId> {
        None
    }

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<Timestamp, Failure> {
        let now = transaction.now();
        let until = now.after(self.lease).as_micros();
        transaction.write(None, |connection| {
            let mut upsert = connection.prepare_cached(
                "INSERT INTO nodes (owner, alive_until) VALUES (?1, ?2) \
                 ON CONFLICT (owner) DO UPDATE SET alive_until = excluded.alive_until",
            )?;
            Ok(upsert.execute(params![self.owner.as_bytes(), until])?)
        })?;
        Ok(now)
    }
}

/// See [`oncekey_store::Store::retire`].
pub(crate) struct Retire(pub(crate) OwnerId);

impl Operation for Retire {
    type Answer = ();

    fn about(&self) -> Option<RecordId> {
        None
    }

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        transaction.write(None, |connection| {
            connection.prepare_cached("DELETE FROM nodes WHERE owner = ?1")?.execute([self.0.as_bytes()])?;
            Ok(())
        })
    }
}
