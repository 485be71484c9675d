//! Claiming in batches: insert what isn't there, replace what a claimant saw, and say which claims were granted.
//!
//! The statements compare and write; what a claim that wasn't granted met is read by a statement of its own: only that sees what
//! the winner committed (READ COMMITTED). Usually it comes afterwards. While many claims are duplicates it comes first: those that
//! it finds need nothing else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use oncekey_core::{Event, RecordId, State, Timestamp, transition};
use oncekey_store::{Claim, Found};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::Failure;
use crate::lookup;
use crate::row::{At, few, lock_timeout, micros, now};
use crate::session::{Param, Session};
use crate::writer::{Answer, Write};

/// See [`oncekey_store::Store::claim`].
pub(crate) struct MakeClaim {
    id: RecordId,
    claim: Arc<Claim>,
    recipe: String,
}

/// What became of a claim.
#[derive(Debug)]
pub(crate) enum Tried {
    Granted(Granted),
    /// This was there already.
    Met(Box<Found>),
}

/// A claim that was granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) attempt: u32,
    pub(crate) now: Timestamp,
}

impl MakeClaim {
    pub(crate) fn new(claim: Arc<Claim>) -> Self {
        let recipe = claim.fingerprint.recipe().to_string();
        Self { id: claim.identity.id(), claim, recipe }
    }
}

/// The claims as a table, in the order of the batch: `$1` is the time that tests give, `$2` the lock timeout, `$18` the state of a
/// claimed record.
macro_rules! claims {
    () => {
        "unnest($3::bytea[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::bytea[], $10::bytea[], $11::text[], \
             $12::text[], $13::text[], $14::text[], $15::bigint[], $16::bigint[], $17::bigint[]) \
             WITH ORDINALITY AS claims (id, namespace, scope_source, account_id, idempotency_key, token, owner, request_hash, \
                 recipe, route, method, path, run_micros, ttl_micros, unknown_ttl_micros, place)"
    };
}

/// Nothing is done for an id that is there, not even a lock taken: a duplicate costs no transaction id and no wait for the disk
/// (but for the claim number that it takes in vain: of those, one in 32 is logged).
const INSERT: &str = concat!(
    "INSERT INTO idempotency_keys (id, namespace, scope_source, account_id, idempotency_key, token, owner, request_hash, \
         recipe, route, method, path, run_micros, ttl_micros, unknown_ttl_micros, status, created_at, started_at, deadline, \
         sweep_at, claim_no, attempts, replays) \
     SELECT id, namespace, scope_source, account_id, idempotency_key, token, owner, request_hash, \
         recipe, route, method, path, run_micros, ttl_micros, unknown_ttl_micros, $18, ",
    now!(),
    ", ",
    now!(),
    ", ",
    now!(),
    " + run_micros * interval '1 microsecond', ",
    now!(),
    " + least(ttl_micros, unknown_ttl_micros) * interval '1 microsecond', nextval('idempotency_claims'), 1, 0 FROM ",
    claims!(),
    " WHERE ",
    lock_timeout!(),
    " ON CONFLICT (id) DO NOTHING RETURNING id, attempts, started_at"
);

/// `$19` and `$20` are the tokens and states that the claimants saw, `$21` whether the record had expired, so that it starts
/// afresh. A record whose claim is valid is never replaced (E1). Whether its owner lives is read under a lock: a heartbeat either
/// came before and is seen, or waits, and then its owner finds that it was replaced (E10).
const REPLACE: &str = concat!(
    "WITH clock AS MATERIALIZED ( \
         SELECT coalesce($1, clock_timestamp()) AS now, ",
    now!(),
    " AS seen, set_config('lock_timeout', $2, true)), \
     claims AS MATERIALIZED (SELECT * FROM ",
    claims!(),
    few!(),
    "), seen AS MATERIALIZED ( \
         SELECT * FROM unnest($19::bytea[], $20::text[], $21::boolean[]) WITH ORDINALITY AS seen (token, status, fresh, place)), \
     living AS MATERIALIZED ( \
         SELECT n.owner, n.alive_until FROM idempotency_nodes AS n WHERE n.owner = ANY (ARRAY( \
             SELECT o.owner FROM claims JOIN seen USING (place) JOIN idempotency_keys AS o ON o.id = claims.id \
             WHERE o.status = 'processing')) \
         ORDER BY n.owner FOR SHARE) \
     UPDATE idempotency_keys AS k SET status = $18, token = c.token, owner = c.owner, \
         request_hash = CASE WHEN s.fresh THEN c.request_hash ELSE k.request_hash END, \
         recipe = CASE WHEN s.fresh THEN c.recipe ELSE k.recipe END, \
         route = c.route, method = c.method, path = c.path, \
         run_micros = c.run_micros, ttl_micros = c.ttl_micros, unknown_ttl_micros = c.unknown_ttl_micros, \
         created_at = CASE WHEN s.fresh THEN now ELSE k.created_at END, started_at = now, completed_at = NULL, \
         deadline = now + c.run_micros * interval '1 microsecond', expires_at = NULL, \
         sweep_at = now + least(c.ttl_micros, c.unknown_ttl_micros) * interval '1 microsecond', unknown_since = NULL, \
         claim_no = nextval('idempotency_claims'), \
         attempts = CASE WHEN s.fresh THEN 1 ELSE least(k.attempts, 2147483646) + 1 END, \
         replays = CASE WHEN s.fresh THEN 0 ELSE k.replays END, \
         response_status = NULL, response_headers = NULL, response_body = NULL \
     FROM clock, claims AS c JOIN seen AS s USING (place) \
     WHERE k.id = c.id AND k.token = s.token AND k.status = s.status \
         AND NOT (k.status = 'processing' AND k.deadline > clock.seen AND EXISTS ( \
             SELECT FROM living AS n WHERE n.owner = k.owner AND n.alive_until > clock.seen)) \
     RETURNING k.id, k.attempts, k.started_at"
);

/// How many of a thousand claims were duplicates lately.
#[derive(Debug, Default)]
pub(crate) struct Duplicates(usize);

impl Duplicates {
    /// From here on reading first costs less than trying in vain.
    const MANY: usize = 300;

    fn are_many(&self) -> bool {
        self.0 >= Self::MANY
    }

    fn saw(&mut self, duplicates: usize, of: usize) {
        self.0 = (self.0 * 7 + duplicates * 1000 / of.max(1)) / 8;
    }
}

impl Write for MakeClaim {
    type Written = Tried;
    type Memory = Duplicates;

    fn id(&self) -> RecordId {
        self.id
    }

    fn size(&self) -> usize {
        0
    }

    async fn write(
        batch: &[&Self],
        session: &Session,
        lock_timeout: Duration,
        duplicates: &mut Duplicates,
    ) -> Result<Vec<Answer<Self>>, Failure> {
        let mut tried: HashMap<RecordId, Result<Tried, Failure>> = HashMap::with_capacity(batch.len());
        let (replacing, first): (Vec<&Self>, Vec<&Self>) = batch.iter().partition(|work| work.claim.replaces.is_some());
        if !replacing.is_empty() {
            take(&mut tried, &run(REPLACE, &replacing, session, lock_timeout).await?)?;
        }
        if duplicates.are_many() {
            let ids: Vec<_> = first.iter().map(|work| work.id).collect();
            for ids in ids.chunks(lookup::TOGETHER) {
                let found = lookup::read_several(session, ids).await?;
                let met = ids
                    .iter()
                    .zip(found)
                    .filter_map(|(id, found)| Some((*id, found.transpose()?.map(|found| Tried::Met(Box::new(found))))));
                tried.extend(met);
            }
        }
        // Also those that meant to replace: what they saw may be gone.
        let others: Vec<_> = batch.iter().filter(|work| !tried.contains_key(&work.id)).copied().collect();
        if !others.is_empty() {
            take(&mut tried, &run(INSERT, &others, session, lock_timeout).await?)?;
        }
        let granted = |work: &&&Self| matches!(tried.get(&work.id), Some(Ok(Tried::Granted(_))));
        if !first.is_empty() {
            duplicates.saw(first.len() - first.iter().filter(granted).count(), first.len());
        }
        Ok(batch.iter().map(|work| tried.remove(&work.id)).collect())
    }
}

/// Reads which claims a statement granted.
fn take(tried: &mut HashMap<RecordId, Result<Tried, Failure>>, rows: &[Row]) -> Result<(), Failure> {
    for row in rows {
        let id: &[u8] = row.try_get(0)?;
        let id = id.try_into().map_err(|_| Failure::Refused("an id of another length came back"))?;
        let attempt = u32::try_from(row.try_get::<_, i32>(1)?).unwrap_or(u32::MAX);
        let granted = Granted { attempt, now: row.try_get::<_, At>(2)?.0 };
        tried.insert(RecordId::from_bytes(id), Ok(Tried::Granted(granted)));
    }
    Ok(())
}

async fn run(
    sql: &'static str,
    batch: &[&MakeClaim],
    session: &Session,
    lock_timeout: Duration,
) -> Result<Vec<Row>, Failure> {
    let Ok(state) = transition(None, Event::Claim, true) else { return Ok(Vec::new()) };
    let state = state.name();
    let lock_timeout = lock_timeout.as_millis().max(1).to_string();
    let now = session.server().given_time();
    let bytes = |field: fn(&MakeClaim) -> &[u8]| batch.iter().map(|work| field(work)).collect::<Vec<_>>();
    let texts = |field: fn(&MakeClaim) -> &str| batch.iter().map(|work| field(work)).collect::<Vec<_>>();
    let spans = |field: fn(&MakeClaim) -> Duration| batch.iter().map(|work| micros(field(work))).collect::<Vec<_>>();
    let columns: [Vec<&[u8]>; 4] = [
        bytes(|work| work.id.as_bytes()),
        bytes(|work| work.claim.token.as_bytes()),
        bytes(|work| work.claim.owner.as_bytes()),
        bytes(|work| work.claim.fingerprint.digest()),
    ];
    let names: [Vec<&str>; 8] = [
        texts(|work| work.claim.identity.namespace.as_str()),
        texts(|work| work.claim.identity.scope.source()),
        texts(|work| work.claim.identity.scope.value()),
        texts(|work| work.claim.identity.key.as_str()),
        texts(|work| &work.recipe),
        texts(|work| &work.claim.origin.route),
        texts(|work| &work.claim.origin.method),
        texts(|work| &work.claim.origin.path),
    ];
    let lifetimes: [Vec<i64>; 3] = [
        spans(|work| work.claim.lifetimes.run),
        spans(|work| work.claim.lifetimes.ttl),
        spans(|work| work.claim.lifetimes.unknown_ttl),
    ];
    let mut params: Vec<Param<'_>> = vec![(&now, Type::TIMESTAMPTZ), (&lock_timeout, Type::TEXT)];
    let [id, token, owner, hash] = columns.each_ref().map(|column| (column as _, Type::BYTEA_ARRAY));
    let [namespace, source, scope, key, recipe, route, method, path] =
        names.each_ref().map(|column| (column as _, Type::TEXT_ARRAY));
    params.extend([id, namespace, source, scope, key, token, owner, hash, recipe, route, method, path]);
    params.extend(lifetimes.each_ref().map(|column| (column as _, Type::INT8_ARRAY)));
    params.push((&state, Type::TEXT));
    let seen: Vec<_> = batch.iter().filter_map(|work| work.claim.replaces).collect();
    let tokens: Vec<&[u8]> = seen.iter().map(|seen| &seen.token.as_bytes()[..]).collect();
    let states: Vec<&str> = seen.iter().map(|seen| State::name(seen.state)).collect();
    let fresh: Vec<bool> = seen.iter().map(|seen| seen.expired).collect();
    if sql == REPLACE {
        params.extend([
            (&tokens as _, Type::BYTEA_ARRAY),
            (&states as _, Type::TEXT_ARRAY),
            (&fresh as _, Type::BOOL_ARRAY),
        ] as [Param<'_>; 3]);
    }
    session.query_often(sql, &params).await
}
