//! Reading single records.

use std::collections::HashMap;

use oncekey_core::RecordId;
use oncekey_store::Found;
use tokio_postgres::types::Type;

use crate::error::Failure;
use crate::row::{self, columns, few};
use crate::session::Session;

/// Most records of one statement: it bounds what their bodies take in memory, and how long the first waits for the last.
pub(crate) const TOGETHER: usize = 32;

/// The record under `id` with its response.
pub(crate) async fn read(session: &Session, id: RecordId) -> Result<Option<Found>, Failure> {
    read_several(session, &[id]).await?.pop().unwrap_or(Ok(None))
}

/// The records under `ids` with their responses, in their order. One that can't be read fails alone.
pub(crate) async fn read_several(
    session: &Session,
    ids: &[RecordId],
) -> Result<Vec<Result<Option<Found>, Failure>>, Failure> {
    const READ: &str = concat!(
        "SELECT ",
        columns!(),
        ", k.response_headers, k.response_body \
         FROM idempotency_keys AS k LEFT JOIN idempotency_nodes AS n USING (owner) WHERE k.id = ANY ($2)"
    );
    let now = session.server().given_time();
    let wanted: Vec<&[u8]> = ids.iter().map(|id| &id.as_bytes()[..]).collect();
    let rows = session.read_often(READ, &[(&now, Type::TIMESTAMPTZ), (&wanted, Type::BYTEA_ARRAY)]).await?;
    let mut rows_by_id = HashMap::new();
    for row in &rows {
        rows_by_id.insert(row.try_get::<_, &[u8]>(1)?, row);
    }
    Ok(wanted.iter().map(|id| rows_by_id.get(id).map(|row| row::decode_whole(row)).transpose()).collect())
}

/// The records of those `ids` that have one, without responses.
pub(crate) async fn peek(session: &Session, ids: &[RecordId]) -> Result<Vec<Found>, Failure> {
    const PEEK: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM unnest($2::bytea[]) WITH ORDINALITY AS wanted (id, place) JOIN idempotency_keys AS k USING (id) \
         LEFT JOIN idempotency_nodes AS n USING (owner)",
        few!()
    );
    let now = session.server().given_time();
    let ids: Vec<&[u8]> = ids.iter().map(|id| &id.as_bytes()[..]).collect();
    let rows = session.read_often(PEEK, &[(&now, Type::TIMESTAMPTZ), (&ids, Type::BYTEA_ARRAY)]).await?;
    rows.iter().map(|row| Ok(row::decode(row)?.found(None))).collect()
}
