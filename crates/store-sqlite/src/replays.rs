//! Adding to the replay counts of records.

use oncekey_core::RecordId;
use rusqlite::params;

use crate::error::Failure;
use crate::writer::{Operation, Transaction};

/// See [`oncekey_store::Store::count_replays`].
pub(crate) struct CountReplays(pub(crate) Vec<(RecordId, u32)>);

impl Operation for CountReplays {
    type Answer = ();

    fn about(&self) -> Option<RecordId> {
        None
    }

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        transaction.write(None, |connection| {
            let mut update = connection.prepare_cached("UPDATE records SET replays = replays + ?2 WHERE id = ?1")?;
            for (id, count) in &self.0 {
                update.execute(params![id.as_bytes(), count])?;
            }
            Ok(())
        })
    }
}
