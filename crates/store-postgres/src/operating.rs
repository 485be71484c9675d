//! An operator's verdicts and purges.

use oncekey_core::{RecordId, State};
use oncekey_store::change::{self, OnResolution};
use oncekey_store::{Purged, Resolution, Resolved};
use tokio_postgres::types::Type;

use crate::error::Failure;
use crate::lookup;
use crate::outcomes::columns;
use crate::row::At;
use crate::session::Session;

/// How often a record that changes meanwhile is looked at again.
const TRIES: u32 = 5;

/// Whether `k` is under a valid claim; `$1` is the time that tests give.
macro_rules! live {
    () => {
        "(k.status = 'processing' AND k.deadline > coalesce($1, statement_timestamp()) AND EXISTS ( \
            SELECT FROM idempotency_nodes AS n \
            WHERE n.owner = k.owner AND n.alive_until > coalesce($1, statement_timestamp())))"
    };
}

/// See [`oncekey_store::Store::resolve`]: read, judged by `change`, and written if the record is still what was read.
pub(crate) async fn resolve(session: &Session, id: RecordId, resolution: &Resolution) -> Result<Resolved, Failure> {
    const RESOLVE: &str = concat!(
        "UPDATE idempotency_keys AS k SET status = $5, token = $6, completed_at = $7, expires_at = $8, \
             sweep_at = least(k.sweep_at, $8), unknown_since = NULL, \
             response_status = $9, response_headers = $10, response_body = $11 \
         WHERE k.id = $2 AND k.token = $3 AND k.status = $4 AND NOT ",
        live!(),
        " RETURNING 1"
    );
    let response = match resolution {
        Resolution::Completed { response, .. } => Some(&**response),
        Resolution::Failed => None,
    };
    let head = response.map(oncekey_core::RecordedResponse::encode_head);
    let (status, body) = response.map(columns).map_or((None, None), |(status, body)| (Some(status), body));
    for _ in 0..TRIES {
        let Some(found) = lookup::read(session, id).await? else { return Ok(Resolved::NotFound) };
        let record = match change::on_resolution(&found.record, found.owner_alive, resolution, found.now) {
            OnResolution::Put(record) => record,
            OnResolution::Answer(answer) => return Ok(answer),
        };
        let now = session.server().given_time();
        let (ended, expires) = (record.times.ended.map(At), record.times.expires.map(At));
        let rows = session
            .query(
                RESOLVE,
                &[
                    (&now, Type::TIMESTAMPTZ),
                    (&&id.as_bytes()[..], Type::BYTEA),
                    (&&found.record.token.as_bytes()[..], Type::BYTEA),
                    (&found.record.state.name(), Type::TEXT),
                    (&record.state.name(), Type::TEXT),
                    (&&record.token.as_bytes()[..], Type::BYTEA),
                    (&ended, Type::TIMESTAMPTZ),
                    (&expires, Type::TIMESTAMPTZ),
                    (&status, Type::INT2),
                    (&head, Type::BYTEA),
                    (&body, Type::BYTEA),
                ],
            )
            .await?;
        if !rows.is_empty() {
            return Ok(Resolved::Done);
        }
    }
    Err(Failure::Restless)
}

/// See [`oncekey_store::Store::purge`]. It goes by columns, not by the whole record: purging is how an operator gets rid of a
/// damaged one.
pub(crate) async fn purge(session: &Session, id: RecordId) -> Result<Purged, Failure> {
    const PURGE: &str = concat!("DELETE FROM idempotency_keys AS k WHERE k.id = $2 AND NOT ", live!(), " RETURNING 1");
    const LOOK: &str = concat!("SELECT ", live!(), " FROM idempotency_keys AS k WHERE k.id = $2");
    for _ in 0..TRIES {
        let now = session.server().given_time();
        let params = &[(&now as _, Type::TIMESTAMPTZ), (&&id.as_bytes()[..] as _, Type::BYTEA)];
        if !session.query(PURGE, params).await?.is_empty() {
            return Ok(Purged::Done);
        }
        match session.read(LOOK, params).await?.first() {
            None => return Ok(Purged::NotFound),
            Some(row) if row.try_get(0)? => return Ok(Purged::Live),
            Some(_) => {}
        }
    }
    Err(Failure::Restless)
}

const _: () = assert!(matches!(State::Processing.name().as_bytes(), b"processing"), "the SQL above names it");
