//! Writing in batches how claims ended.

use std::collections::HashMap;
use std::time::Duration;

use oncekey_core::response::RecordedBody;
use oncekey_core::{Event, RecordId, RecordedResponse, State, Timestamp, Token, transition};
use oncekey_store::Outcome;
use tokio_postgres::types::Type;

use crate::error::Failure;
use crate::row::{At, few, lock_timeout, now};
use crate::session::Session;
use crate::writer::{Answer, Write};

/// See [`oncekey_store::Store::record`].
pub(crate) struct RecordOutcome {
    id: RecordId,
    token: Token,
    outcome: Outcome,
    head: Option<Vec<u8>>,
    /// The state that it makes, and those it may be made from.
    state: State,
    from: String,
}

/// An outcome that was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) expires: Timestamp,
    pub(crate) now: Timestamp,
}

/// When the record expires: `k` is the record, `o` its outcome.
macro_rules! expires {
    () => {
        concat!(
            "(",
            now!(),
            " + CASE o.state WHEN 'unknown' THEN k.unknown_ttl_micros ELSE k.ttl_micros END * interval '1 microsecond')"
        )
    };
}

/// `$1` is the time that tests give, `$2` the lock timeout. Which states an outcome may be written over is the core's to say;
/// it comes as `from_states`. No indexed column changes unless the record is, or was, unknown: then it is looked for elsewhere
/// and elsewhen. (Assigning a column its own value keeps the update within the page.)
const RECORD: &str = concat!(
    "UPDATE idempotency_keys AS k SET status = o.state, completed_at = ",
    now!(),
    ", expires_at = ",
    expires!(),
    ", sweep_at = CASE o.state WHEN 'unknown' THEN ",
    expires!(),
    " ELSE least(k.sweep_at, ",
    expires!(),
    ") END, unknown_since = CASE o.state WHEN 'unknown' THEN ",
    now!(),
    " END, response_status = o.response_status, response_headers = o.response_headers, response_body = o.response_body \
     FROM unnest($3::bytea[], $4::bytea[], $5::text[], $6::text[], $7::smallint[], $8::bytea[], $9::bytea[]) \
         WITH ORDINALITY AS o (id, token, state, from_states, response_status, response_headers, response_body, place)",
    few!(),
    " AND ",
    lock_timeout!(),
    " AND k.id = o.id AND k.token = o.token AND k.status = ANY (string_to_array(o.from_states, ' ')) \
     RETURNING k.id, k.expires_at, k.completed_at"
);

impl RecordOutcome {
    /// `None` if the event ends no claim.
    pub(crate) fn new(id: RecordId, token: Token, outcome: Outcome) -> Option<Self> {
        let (state, from) = ends(outcome.event)?;
        let head = outcome.response.as_ref().map(|response| response.encode_head());
        Some(Self { id, token, outcome, head, state, from })
    }

    fn response(&self) -> Option<&RecordedResponse> {
        self.outcome.response.as_deref()
    }
}

/// What an owner's event makes of a record, and from which states, as the core says.
pub(crate) fn ends(event: Event) -> Option<(State, String)> {
    if !matches!(event, Event::Complete | Event::Fail | Event::WriteOff) {
        return None;
    }
    let allowed = |from: &State| transition(Some(*from), event, true);
    let from: Vec<State> = State::ALL.into_iter().filter(|from| allowed(from).is_ok()).collect();
    let state = allowed(from.first()?).ok()?;
    let names: Vec<_> = from.into_iter().map(State::name).collect();
    Some((state, names.join(" ")))
}

/// The columns of a response: status and body.
pub(crate) fn columns(response: &RecordedResponse) -> (i16, Option<&[u8]>) {
    let body = match &response.body {
        RecordedBody::Stored(bytes) => Some(&bytes[..]),
        RecordedBody::NotStored => None,
    };
    (i16::try_from(response.status.as_u16()).unwrap_or(i16::MAX), body)
}

impl Write for RecordOutcome {
    type Written = Ended;
    type Memory = ();

    fn id(&self) -> RecordId {
        self.id
    }

    fn size(&self) -> usize {
        self.response().and_then(|response| columns(response).1).map_or(0, <[u8]>::len)
    }

    async fn write(
        batch: &[&Self],
        session: &Session,
        lock_timeout: Duration,
        (): &mut (),
    ) -> Result<Vec<Answer<Self>>, Failure> {
        let lock_timeout = lock_timeout.as_millis().max(1).to_string();
        let now = session.server().given_time();
        let ids: Vec<&[u8]> = batch.iter().map(|work| &work.id.as_bytes()[..]).collect();
        let tokens: Vec<&[u8]> = batch.iter().map(|work| &work.token.as_bytes()[..]).collect();
        let states: Vec<&str> = batch.iter().map(|work| work.state.name()).collect();
        let from: Vec<&str> = batch.iter().map(|work| &work.from[..]).collect();
        let heads: Vec<Option<&[u8]>> = batch.iter().map(|work| work.head.as_deref()).collect();
        let responses = || batch.iter().map(|work| work.response().map(columns));
        let statuses: Vec<Option<i16>> = responses().map(|response| response.map(|(status, _)| status)).collect();
        let bodies: Vec<Option<&[u8]>> = responses().map(|response| response.and_then(|(_, body)| body)).collect();
        let rows = session
            .query_often(
                RECORD,
                &[
                    (&now, Type::TIMESTAMPTZ),
                    (&lock_timeout, Type::TEXT),
                    (&ids, Type::BYTEA_ARRAY),
                    (&tokens, Type::BYTEA_ARRAY),
                    (&states, Type::TEXT_ARRAY),
                    (&from, Type::TEXT_ARRAY),
                    (&statuses, Type::INT2_ARRAY),
                    (&heads, Type::BYTEA_ARRAY),
                    (&bodies, Type::BYTEA_ARRAY),
                ],
            )
            .await?;
        let mut ended = HashMap::new();
        for row in &rows {
            let times = Ended { expires: row.try_get::<_, At>(1)?.0, now: row.try_get::<_, At>(2)?.0 };
            ended.insert(row.try_get::<_, &[u8]>(0)?, times);
        }
        Ok(ids.iter().map(|id| ended.get(id).copied().map(Ok)).collect())
    }
}
