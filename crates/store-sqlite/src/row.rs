//! Records as rows: the columns, and reading them back with distrust.
//!
//! A row that can't be read whole is `Corrupt`, and so is one whose fields don't yield its id. It is never skipped.

use std::time::Duration;

use oncekey_core::record::{Lifetimes, Origin, Times};
use oncekey_core::{
    Fingerprint, Identity, Key, OwnerId, Record, RecordId, RecordedResponse, Scope, State, Timestamp, Token,
};
use oncekey_store::{Found, kept};
use rusqlite::Row;
use rusqlite::types::FromSql;

use crate::error::Failure;

/// The columns of a record and its owner's heartbeat, in the order in which [`decode`] reads them.
macro_rules! columns {
    () => {
        "records.seq, records.id, namespace, scope_source, scope, key, state, token, records.owner, fingerprint, recipe, \
         route, method, path, run, ttl, unknown_ttl, created, started, ended, deadline, expires, response_status, \
         attempts, replays, alive_until"
    };
}
pub(crate) use columns;

/// The number of those columns: what a statement selects beside them begins here.
pub(crate) const COLUMNS: usize = 26;

/// A record as it is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) seq: i64,
    pub(crate) record: Record,
    /// Until when its owner's heartbeat is valid.
    alive_until: Option<Timestamp>,
}

impl Stored {
    pub(crate) fn owner_alive(&self, now: Timestamp) -> bool {
        self.alive_until.is_some_and(|until| now < until)
    }

    pub(crate) fn found(self, now: Timestamp) -> Found {
        Found { owner_alive: self.owner_alive(now), record: self.record, response: None, now }
    }
}

/// Reads the [`columns`] of a row.
pub(crate) fn decode(row: &Row<'_>) -> Result<Stored, Failure> {
    let seq = row.get(0)?;
    let id = RecordId::from_bytes(row.get(1).map_err(|_| Failure::Nameless { seq })?);
    let columns = Columns { row, id };
    let record = Record {
        identity: columns.identity()?,
        state: columns.text(6)?.parse().map_err(|()| columns.corrupt("its state is none"))?,
        token: Token::from_bytes(columns.get(7)?),
        owner: OwnerId::from_bytes(columns.get(8)?),
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
        response_status: columns.get(22)?,
        attempts: columns.get(23)?,
        replays: columns.count(24)?,
    };
    let alive_until = columns.optional_time(25)?;
    if (record.state == State::Processing) != record.times.expires.is_none() {
        return Err(columns.corrupt("its state and its expiry don't belong together"));
    }
    Ok(Stored { seq, record, alive_until })
}

/// Reads the response of a record, as the head and body that a statement selected from column `at` on.
pub(crate) fn decode_response(row: &Row<'_>, at: usize, record: &Record) -> Result<Option<RecordedResponse>, Failure> {
    let columns = Columns { row, id: record.identity.id() };
    let head: Option<&[u8]> = row.get_ref(at)?.as_blob_or_null().map_err(|_| columns.corrupt("its head is no blob"))?;
    let body: Option<Vec<u8>> = columns.get(at + 1)?;
    kept::response(record.response_status, head, body.map(Into::into)).map_err(|what| columns.corrupt(what))
}

/// A row that is being read, and whose record it is.
struct Columns<'a> {
    row: &'a Row<'a>,
    id: RecordId,
}

impl Columns<'_> {
    fn corrupt(&self, what: &'static str) -> Failure {
        Failure::Corrupt { id: self.id, what }
    }

    fn get<T: FromSql>(&self, column: usize) -> Result<T, Failure> {
        self.row.get(column).map_err(|error| match error {
            rusqlite::Error::SqliteFailure(..) => error.into(),
            _ => self.corrupt("a column holds what doesn't belong there"),
        })
    }

    fn text(&self, column: usize) -> Result<&str, Failure> {
        self.row.get_ref(column)?.as_str().map_err(|_| self.corrupt("a column holds no text"))
    }

    fn time(&self, column: usize) -> Result<Timestamp, Failure> {
        self.get(column).map(Timestamp::from_micros)
    }

    fn optional_time(&self, column: usize) -> Result<Option<Timestamp>, Failure> {
        Ok(self.get::<Option<i64>>(column)?.map(Timestamp::from_micros))
    }

    fn count(&self, column: usize) -> Result<u64, Failure> {
        u64::try_from(self.get::<i64>(column)?).map_err(|_| self.corrupt("a count is negative"))
    }

    fn duration(&self, column: usize) -> Result<Duration, Failure> {
        self.count(column).map(Duration::from_micros)
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
        Ok(Fingerprint::from_parts(self.get(9)?, recipe))
    }
}

/// A duration as a column keeps it; one too long for it is as good as endless.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
