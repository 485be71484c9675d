//! Adding to the replay counts of records.

use std::collections::BTreeMap;

use oncekey_core::RecordId;
use tokio_postgres::types::Type;

use crate::error::Failure;
use crate::row::few;
use crate::session::Session;

/// See [`oncekey_store::Store::count_replays`]. The rows are locked in the order of their ids first: all nodes count the same
/// few popular records, and would deadlock otherwise.
pub(crate) async fn count(session: &Session, replays: &[(RecordId, u32)]) -> Result<(), Failure> {
    const COUNT: &str = concat!(
        "WITH counted AS MATERIALIZED ( \
            SELECT id, c.replays FROM unnest($1::bytea[], $2::bigint[]) WITH ORDINALITY AS c (id, replays, place) \
            JOIN idempotency_keys AS k USING (id)",
        few!(),
        " ORDER BY id FOR NO KEY UPDATE OF k) \
        UPDATE idempotency_keys AS k SET replays = k.replays + counted.replays FROM counted WHERE k.id = counted.id"
    );
    let mut sums = BTreeMap::<[u8; 16], i64>::new();
    for (id, count) in replays {
        *sums.entry(*id.as_bytes()).or_default() += i64::from(*count);
    }
    let ids: Vec<&[u8]> = sums.keys().map(|id| &id[..]).collect();
    let counts: Vec<i64> = sums.values().copied().collect();
    session.query(COUNT, &[(&ids, Type::BYTEA_ARRAY), (&counts, Type::INT8_ARRAY)]).await.map(drop)
}
