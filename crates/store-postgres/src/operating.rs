//! An operator's orders: settling and deleting records, with the lines of the trail that they leave.
//!
//! An order is one statement for all its records, and so is what it leaves in the trail: read, judged by `change`, and written
//! where the record is still what was read.

use std::collections::HashMap;

use oncekey_core::{Record, RecordId, RecordedResponse, State};
use oncekey_store::change::{self, OnOrder};
use oncekey_store::{Acted, Deed, Operator, Order, Resolution, TOGETHER};
use tokio_postgres::types::Type;

use crate::error::Failure;
use crate::lookup;
use crate::outcomes::columns;
use crate::row::{At, few};
use crate::session::{Param, Session};

/// How often a single record that changes meanwhile is looked at again.
const TRIES: u32 = 5;

/// Whether `k` is under a valid claim; `$1` is the time that tests give.
macro_rules! live {
    () => {
        "(k.status = 'processing' AND k.deadline > coalesce($1, statement_timestamp()) AND EXISTS ( \
            SELECT FROM idempotency_nodes AS n \
            WHERE n.owner = k.owner AND n.alive_until > coalesce($1, statement_timestamp())))"
    };
}

/// Changes by `$done` the records of `$2` that are still what was seen of them (`$3`, `$4`; NULL: whatever they are) and under
/// no valid claim, and adds their lines (`$5` to `$9`; no operator, no line). Locked in the order of their ids, which is that of
/// the writers' batches: nobody deadlocks.
macro_rules! order {
    ($action:literal, $more:literal, $columns:literal, $after:literal, $done:literal) => {
        concat!(
            "WITH wanted AS MATERIALIZED ( \
                SELECT * FROM unnest($2::bytea[], $3::bytea[], $4::text[]",
            $more,
            ") WITH ORDINALITY AS w (id, token, status",
            $columns,
            ", place)",
            few!(),
            "), held AS MATERIALIZED ( \
                SELECT k.id, CASE k.status WHEN 'processing' THEN 'unknown' ELSE k.status END AS before",
            $columns,
            " FROM wanted AS w JOIN idempotency_keys AS k USING (id) \
                WHERE (w.token IS NULL OR k.token = w.token AND k.status = w.status) AND NOT ",
            live!(),
            " ORDER BY k.id FOR UPDATE OF k \
            ), done AS (",
            $done,
            " RETURNING k.id, k.namespace, k.scope_source, k.account_id, k.idempotency_key, k.route, held.before \
            ), noted AS ( \
                INSERT INTO idempotency_audit (at, action, id, namespace, scope_source, account_id, idempotency_key, route, \
                    before, after, response_status, who, via, origin, reason, call) \
                SELECT coalesce($1, statement_timestamp()), '",
            $action,
            "', id, namespace, scope_source, account_id, idempotency_key, route, before, ",
            $after,
            ", $5, $6, $7, $8, $9 FROM done WHERE $5::text IS NOT NULL \
            ), steps AS (DELETE FROM idempotency_steps AS s USING done WHERE s.id = done.id AND '",
            $action,
            "' = 'purge') SELECT id FROM done"
        )
    };
}

const PURGE: &str =
    order!("purge", "", "", "NULL, NULL", "DELETE FROM idempotency_keys AS k USING held WHERE k.id = held.id");

const RESOLVE: &str = order!(
    "resolve",
    ", $10::timestamptz[], $11::timestamptz[]",
    ", ended, expires",
    "$12, $14",
    "UPDATE idempotency_keys AS k SET status = $12, token = coalesce($13, k.token), completed_at = held.ended, \
         expires_at = held.expires, sweep_at = least(k.sweep_at, held.expires), unknown_since = NULL, \
         response_status = $14, response_headers = $15, response_body = $16 \
     FROM held WHERE k.id = held.id"
);

/// A record that is to be changed. What was seen of it is `None` where it doesn't matter.
struct Wanted {
    id: RecordId,
    seen: Option<Record>,
    resolved: Option<Box<Record>>,
}

/// See [`oncekey_store::Store::operate`].
pub(crate) async fn operate(session: &Session, ids: &[RecordId], order: &Order) -> Result<Vec<Acted>, Failure> {
    if ids.len() > TOGETHER {
        return Err(Failure::Refused("too many records for one order"));
    }
    let mut acted: HashMap<RecordId, Acted> = HashMap::new();
    // Of many, one that doesn't keep still is left alone; who means a single one gets an answer about it.
    let alone = ids.len() == 1 && order.only.is_none();
    for _ in 0..if alone { TRIES } else { 1 } {
        let wanted = judge(session, ids, order, &mut acted).await?;
        for id in carry_out(session, &wanted, order).await? {
            acted.insert(id, Acted::Done);
        }
        if !acted.is_empty() {
            break;
        }
    }
    if alone && acted.is_empty() {
        return Err(Failure::Restless);
    }
    Ok(ids.iter().map(|id| acted.get(id).copied().unwrap_or(Acted::Unmatched)).collect())
}

/// Finds out which of the records are to be changed, and answers for the others.
async fn judge(
    session: &Session,
    ids: &[RecordId],
    order: &Order,
    acted: &mut HashMap<RecordId, Acted>,
) -> Result<Vec<Wanted>, Failure> {
    if matches!(order.deed, Deed::Purge) && order.only.is_none() {
        return judge_purge(session, ids, acted).await;
    }
    let mut found: HashMap<_, _> =
        lookup::peek(session, ids).await?.into_iter().map(|found| (found.record.identity.id(), found)).collect();
    let mut wanted = Vec::new();
    for id in ids {
        let Some(found) = found.remove(id) else {
            acted.insert(*id, Acted::NotFound);
            continue;
        };
        let resolved = match change::on_order(&found.record, found.owner_alive, order, found.now) {
            OnOrder::Answer(answer) => {
                acted.insert(*id, answer);
                continue;
            }
            OnOrder::Put(record, _) => Some(record),
            OnOrder::Delete(_) => None,
        };
        wanted.push(Wanted { id: *id, seen: Some(found.record), resolved });
    }
    Ok(wanted)
}

/// By columns, not by the whole record: purging is how an operator gets rid of a damaged one.
async fn judge_purge(
    session: &Session,
    ids: &[RecordId],
    acted: &mut HashMap<RecordId, Acted>,
) -> Result<Vec<Wanted>, Failure> {
    const LOOK: &str = concat!("SELECT k.id, ", live!(), " FROM idempotency_keys AS k WHERE k.id = ANY ($2)");
    let now = session.server().given_time();
    let bytes: Vec<&[u8]> = ids.iter().map(|id| &id.as_bytes()[..]).collect();
    let rows = session.read(LOOK, &[(&now, Type::TIMESTAMPTZ), (&bytes, Type::BYTEA_ARRAY)]).await?;
    let mut live: HashMap<&[u8], bool> = HashMap::new();
    for row in &rows {
        live.insert(row.try_get(0)?, row.try_get(1)?);
    }
    let mut wanted = Vec::new();
    for id in ids {
        match live.get(&id.as_bytes()[..]) {
            None => _ = acted.insert(*id, Acted::NotFound),
            Some(true) => _ = acted.insert(*id, Acted::Live),
            Some(false) => wanted.push(Wanted { id: *id, seen: None, resolved: None }),
        }
    }
    Ok(wanted)
}

/// Changes what is still as it was seen, and says which that was.
async fn carry_out(session: &Session, wanted: &[Wanted], order: &Order) -> Result<Vec<RecordId>, Failure> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let now = session.server().given_time();
    let ids: Vec<&[u8]> = wanted.iter().map(|wanted| &wanted.id.as_bytes()[..]).collect();
    let seen = || wanted.iter().map(|wanted| wanted.seen.as_ref());
    let tokens: Vec<Option<&[u8]>> = seen().map(|seen| seen.map(|record| &record.token.as_bytes()[..])).collect();
    let names: Vec<Option<&str>> = seen().map(|seen| seen.map(|record| record.state.name())).collect();
    let Signature { who, via, origin, reason, call } = Signature::of(order.operator.as_ref());
    let mut params: Vec<Param<'_>> = vec![
        (&now, Type::TIMESTAMPTZ),
        (&ids, Type::BYTEA_ARRAY),
        (&tokens, Type::BYTEA_ARRAY),
        (&names, Type::TEXT_ARRAY),
        (&who, Type::TEXT),
        (&via, Type::TEXT),
        (&origin, Type::TEXT),
        (&reason, Type::TEXT),
        (&call, Type::TEXT),
    ];
    let rows = match &order.deed {
        Deed::Purge => session.query(PURGE, &params).await?,
        Deed::Resolve(resolution) => {
            let times = || wanted.iter().map(|wanted| wanted.resolved.as_ref().map(|record| record.times));
            let ended: Vec<Option<At>> = times().map(|times| times.and_then(|times| times.ended).map(At)).collect();
            let expires: Vec<Option<At>> = times().map(|times| times.and_then(|times| times.expires).map(At)).collect();
            let (state, token, response) = match resolution {
                Resolution::Completed { response, token } => (State::Completed, Some(token), Some(&**response)),
                Resolution::Failed => (State::Failed, None, None),
            };
            let (state, token) = (state.name(), token.map(|token| &token.as_bytes()[..]));
            let head = response.map(RecordedResponse::encode_head);
            let (status, body) = response.map(columns).map_or((None, None), |(status, body)| (Some(status), body));
            params.extend([
                (&ended as _, Type::TIMESTAMPTZ_ARRAY),
                (&expires as _, Type::TIMESTAMPTZ_ARRAY),
                (&state as _, Type::TEXT),
                (&token as _, Type::BYTEA),
                (&status as _, Type::INT2),
                (&head as _, Type::BYTEA),
                (&body as _, Type::BYTEA),
            ]);
            session.query(RESOLVE, &params).await?
        }
    };
    rows.iter().map(|row| id(row.try_get(0)?)).collect()
}

fn id(bytes: &[u8]) -> Result<RecordId, Failure> {
    let bytes = bytes.try_into().map_err(|_| Failure::Refused("an id has the wrong length"))?;
    Ok(RecordId::from_bytes(bytes))
}

/// The columns of an operator; all empty without one.
#[derive(Default)]
pub(crate) struct Signature<'a> {
    pub(crate) who: Option<&'a str>,
    pub(crate) via: Option<&'a str>,
    pub(crate) origin: Option<&'a str>,
    pub(crate) reason: Option<&'a str>,
    pub(crate) call: Option<&'a str>,
}

impl<'a> Signature<'a> {
    pub(crate) fn of(operator: Option<&'a Operator>) -> Self {
        operator.map_or_else(Self::default, |operator| Self {
            who: Some(&operator.who),
            via: Some(&operator.via),
            origin: operator.from.as_deref(),
            reason: operator.reason.as_deref(),
            call: Some(&operator.call),
        })
    }
}

const _: () = assert!(matches!(State::Processing.name().as_bytes(), b"processing"), "the SQL above names it");
const _: () = assert!(matches!(State::Unknown.name().as_bytes(), b"unknown"), "the SQL above names it");
