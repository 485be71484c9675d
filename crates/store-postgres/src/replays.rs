//! Adding to the replay counts of records.

use std::collections::BTreeMap;

use oncekey_core::RecordId;
use tokio_postgres::types::Type;

use crate::error::Failure;
use crate::row::few;
use crate::session::Session;

/// How often a count is made again that fell victim to a deadlock.
const TRIES: u32 = 5;

/// See [`oncekey_store::Store::count_replays`]. All nodes count the same few popular records, in the order of their ids so that
/// they wait for each other in turn. Should the server go about it in another order, one of two is refused, and counts again.
pub(crate) async fn count(session: &Session, replays: &[(RecordId, u32)]) -> Result<(), Failure> {
    const COUNT: &str = concat!(
        "UPDATE idempotency_keys AS k SET replays = k.replays + c.replays \
         FROM unnest($1::bytea[], $2::bigint[]) WITH ORDINALITY AS c (id, replays, place)",
        few!(),
        " AND k.id = c.id"
    );
    let mut sums = BTreeMap::<[u8; 16], i64>::new();
    for (id, count) in replays {
        *sums.entry(*id.as_bytes()).or_default() += i64::from(*count);
    }
    let ids: Vec<&[u8]> = sums.keys().map(|id| &id[..]).collect();
    let counts: Vec<i64> = sums.values().copied().collect();
    let params: &[_] = &[(&ids as _, Type::BYTEA_ARRAY), (&counts as _, Type::INT8_ARRAY)];
    for _ in 1..TRIES {
        match session.query(COUNT, params).await {
            Err(failure) if failure.is_transient() => {}
            counted => return counted.map(drop),
        }
    }
    session.query(COUNT, params).await.map(drop)
}
