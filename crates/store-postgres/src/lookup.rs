//! Reading single records.

use oncekey_core::RecordId;
use oncekey_store::Found;
use tokio_postgres::types::Type;

use crate::error::Failure;
use crate::row::{self, columns, few};
use crate::session::Session;

/// The record under `id` with its response.
pub(crate) async fn read(session: &Session, id: RecordId) -> Result<Option<Found>, Failure> {
    const READ: &str = concat!(
        "SELECT ",
        columns!(),
        ", k.response_headers, k.response_body \
         FROM idempotency_keys AS k LEFT JOIN idempotency_nodes AS n USING (owner) WHERE k.id = $2"
    );
    let (now, id) = (session.server().given_time(), &id.as_bytes()[..]);
    let rows = session.read(READ, &[(&now, Type::TIMESTAMPTZ), (&id, Type::BYTEA)]).await?;
    rows.first().map(row::decode_whole).transpose()
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
    let rows = session.read(PEEK, &[(&now, Type::TIMESTAMPTZ), (&ids, Type::BYTEA_ARRAY)]).await?;
    rows.iter().map(|row| Ok(row::decode(row)?.found(None))).collect()
}
