//! Records as rows: the columns, and reading them back with distrust.
//!
//! A row that can't be read whole is `Corrupt`, and so is one whose fields don't yield its id. It is never skipped.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use oncekey_core::record::{Lifetimes, Origin, Times};
use oncekey_core::{
    Fingerprint, Identity, Key, OwnerId, Record, RecordId, RecordedResponse, Scope, State, Timestamp, Token,
};
use oncekey_store::{Found, kept};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::error::Failure;

/// The columns of a record and its owner's heartbeat, in the order in which [`decode`] reads them, from the tables `k` and `n`;
/// then the time of the reading. That is from before the snapshot was taken: a heartbeat that comes in between must not look
/// lapsed. `$1` is the time that tests give.
macro_rules! columns {
    () => {
        "k.claim_no, k.id, k.namespace, k.scope_source, k.account_id, k.idempotency_key, k.status, k.token, k.owner, \
         k.request_hash, k.recipe, k.route, k.method, k.path, k.run_micros, k.ttl_micros, k.unknown_ttl_micros, \
         k.created_at, k.started_at, k.completed_at, k.deadline, k.expires_at, k.response_status, k.attempts, k.replays, \
         n.alive_until, coalesce($1, statement_timestamp())"
    };
}
pub(crate) use columns;

/// Ends a list of rows that comes from arrays, and lets the planner believe that it is short: of a function's rows it takes one
/// in two hundred to lie in any range. For the few hundred that there are it would rather scan a whole table of some ten
/// megabytes than look each up; and on a table that nobody has analysed it knows no better. `place` is the ordinality.
macro_rules! few {
    () => {
        " WHERE place BETWEEN 1 AND 1000000"
    };
}
pub(crate) use few;

/// The time of a statement that writes, the same for all its rows: `$1` is the time that tests give. It is no later than any
/// commit's, so a claim lapses earlier than it might, and never later.
macro_rules! now {
    () => {
        "coalesce($1, statement_timestamp())"
    };
}
pub(crate) use now;

/// Sets the lock timeout for the rest of a statement to `$2`, once and before its first row.
macro_rules! lock_timeout {
    () => {
        "(SELECT set_config('lock_timeout', $2, true)) IS NOT NULL"
    };
}
pub(crate) use lock_timeout;

/// The number of those columns: what a statement selects beside them begins here.
const COLUMNS: usize = 27;

/// A record as it is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) claim_no: i64,
    pub(crate) record: Record,
    pub(crate) owner_alive: bool,
    pub(crate) now: Timestamp,
}

impl Stored {
    pub(crate) fn found(self, response: Option<Arc<RecordedResponse>>) -> Found {
        Found { record: self.record, response, owner_alive: self.owner_alive, now: self.now }
    }
}

/// Reads the [`columns`] of a row.
pub(crate) fn decode(row: &Row) -> Result<Stored, Failure> {
    let claim_no = row.try_get(0)?;
    let id = row.try_get::<_, &[u8]>(1).ok().and_then(|id| id.try_into().ok());
    let id = RecordId::from_bytes(id.ok_or(Failure::Nameless { claim_no })?);
    let columns = Columns { row, id };
    let record = Record {
        identity: columns.identity()?,
        state: columns.text(6)?.parse().map_err(|()| columns.corrupt("its state is none"))?,
        token: Token::from_bytes(columns.bytes(7)?),
        owner: OwnerId::from_bytes(columns.bytes(8)?),
        fingerprint: columns.fingerprint()?,
        origin: Origin {
            route: columns.text(11)?.to_owned(),
            method: columns.text(12)?.to_owned(),
            path: columns.text(13)?.to_owned(),
        },
        lifetimes: Lifetimes {
            run: columns.duration(14)?,
            ttl: columns.duration(15)?,
            unknown_ttl: columns.duration(16)?,
        },
        times: Times {
            created: columns.time(17)?,
            started: columns.time(18)?,
            ended: columns.optional_time(19)?,
            deadline: columns.time(20)?,
            expires: columns.optional_time(21)?,
        },
        response_status: columns.status()?,
        attempts: columns.number(23, |row| row.try_get::<_, i32>(23).map(i64::from))?,
        replays: columns.number(24, |row| row.try_get(24))?,
    };
    if (record.state == State::Processing) != record.times.expires.is_none() {
        return Err(columns.corrupt("its state and its expiry don't belong together"));
    }
    let now = columns.time(26)?;
    let owner_alive = columns.optional_time(25)?.is_some_and(|until| now < until);
    Ok(Stored { claim_no, record, owner_alive, now })
}

/// Reads a record with its response: the [`columns`], then `response_headers` and `response_body`.
pub(crate) fn decode_whole(row: &Row) -> Result<Found, Failure> {
    let stored = decode(row)?;
    let columns = Columns { row, id: stored.record.identity.id() };
    let head: Option<&[u8]> = columns.get(COLUMNS)?;
    let body: Option<Vec<u8>> = columns.get(COLUMNS + 1)?;
    let response = kept::response(stored.record.response_status, head, body.map(Into::into));
    let response = response.map_err(|what| columns.corrupt(what))?.map(Arc::new);
    Ok(stored.found(response))
}

/// A row that is being read, and whose record it is.
struct Columns<'a> {
    row: &'a Row,
    id: RecordId,
}

impl<'a> Columns<'a> {
    fn corrupt(&self, what: &'static str) -> Failure {
        Failure::Corrupt { id: self.id, what }
    }

    fn get<T: FromSql<'a>>(&self, column: usize) -> Result<T, Failure> {
        self.row.try_get(column).map_err(|_| self.corrupt("a column holds what doesn't belong there"))
    }

    fn text(&self, column: usize) -> Result<&'a str, Failure> {
        self.get(column)
    }

    fn bytes<const N: usize>(&self, column: usize) -> Result<[u8; N], Failure> {
        self.get::<&[u8]>(column)?.try_into().map_err(|_| self.corrupt("a column has the wrong length"))
    }

    fn time(&self, column: usize) -> Result<Timestamp, Failure> {
        self.get::<At>(column).map(|at| at.0)
    }

    fn optional_time(&self, column: usize) -> Result<Option<Timestamp>, Failure> {
        Ok(self.get::<Option<At>>(column)?.map(|at| at.0))
    }

    fn number<T: TryFrom<i64>>(
        &self,
        column: usize,
        read: impl FnOnce(&Row) -> Result<i64, tokio_postgres::Error>,
    ) -> Result<T, Failure> {
        debug_assert!(column < COLUMNS, "a column of the record");
        let number = read(self.row).map_err(|_| self.corrupt("a column holds no number"))?;
        T::try_from(number).map_err(|_| self.corrupt("a number is out of range"))
    }

    fn status(&self) -> Result<Option<u16>, Failure> {
        let status: Option<i16> = self.get(22)?;
        status.map(|status| u16::try_from(status).map_err(|_| self.corrupt("its status is negative"))).transpose()
    }

    fn duration(&self, column: usize) -> Result<Duration, Failure> {
        self.number(column, |row| row.try_get(column)).map(Duration::from_micros)
    }

    /// The four fields, which must yield the id that the row was found by (S3).
    fn identity(&self) -> Result<Identity, Failure> {
        let unreadable = "its namespace, scope or key is none";
        let identity = Identity {
            namespace: self.text(2)?.parse().map_err(|_| self.corrupt(unreadable))?,
            scope: Scope::new(self.text(3)?, self.text(4)?).map_err(|_| self.corrupt(unreadable))?,
            key: Key::from_decoded(self.text(5)?).map_err(|_| self.corrupt(unreadable))?,
        };
        if identity.id() == self.id {
            Ok(identity)
        } else {
            Err(self.corrupt("its namespace, scope and key are another operation's"))
        }
    }

    fn fingerprint(&self) -> Result<Fingerprint, Failure> {
        let recipe = self.text(10)?.parse().map_err(|_| self.corrupt("its fingerprint's recipe is unknown"))?;
        Ok(Fingerprint::from_parts(self.bytes(9)?, recipe))
    }
}

/// The longest duration that is kept; a longer one is as good as endless. Up to it PostgreSQL's arithmetic is exact.
const LONGEST: Duration = Duration::from_hours(250 * 365 * 24);

/// A duration as a column keeps it.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.min(LONGEST).as_micros()).unwrap_or(i64::MAX)
}

/// A point in time as a `timestamptz`, to the microsecond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At(pub(crate) Timestamp);

/// 2000-01-01T00:00:00Z, where PostgreSQL counts from, in microseconds since 1970.
const POSTGRES_EPOCH: i64 = 946_684_800_000_000;
/// The first value past PostgreSQL's range, counted from its epoch.
const PAST_THE_END: i64 = 9_223_371_331_200_000_000;
/// The first value in PostgreSQL's range.
const BEGINNING: i64 = -211_813_488_000_000_000;

impl ToSql for At {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i64(match self.0.as_micros().saturating_sub(POSTGRES_EPOCH) {
            PAST_THE_END.. => i64::MAX,
            ..BEGINNING => i64::MIN,
            micros => micros,
        });
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for At {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        // The infinities are the ends of the range, and stay there.
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(Timestamp::from_micros(micros.saturating_add(POSTGRES_EPOCH))))
    }

    accepts!(TIMESTAMPTZ);
}
