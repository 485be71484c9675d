//! Counting a scope's records, over an index that only those pay for who count.

use oncekey_core::{Namespace, RecordId, Scope};
use rusqlite::{Connection, params};

use crate::error::Failure;
use crate::writer::{Operation, Transaction};

/// Makes the index that [`count`] goes by. On many records that takes as long as reading them all. No part of the schema:
/// each claim pays for it (about a quarter of the throughput under load, when measured by the example `throughput`),
/// and a quota is a rare thing. It stays once it is there; `DROP INDEX records_scope` is safe.
pub(crate) struct IndexScopes;

impl Operation for IndexScopes {
    type Answer = ();

    fn about(&self) -> Option<RecordId> {
        None
    }

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        let index = "CREATE INDEX IF NOT EXISTS records_scope ON records (scope, scope_source, namespace)";
        transaction.write(None, |connection| Ok(connection.execute_batch(index)?))
    }
}

/// See [`oncekey_store::Store::count_scope`].
pub(crate) fn count(connection: &Connection, namespace: &Namespace, scope: &Scope, limit: u64) -> Result<u64, Failure> {
    let mut count = connection.prepare_cached(
        "SELECT count(*) FROM (SELECT 1 FROM records INDEXED BY records_scope \
         WHERE scope = ?1 AND scope_source = ?2 AND namespace = ?3 LIMIT ?4)",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let parameters = params![scope.value(), scope.source(), namespace.as_str(), limit];
    let counted: i64 = count.query_row(parameters, |row| row.get(0))?;
    Ok(u64::try_from(counted).unwrap_or(0))
}
