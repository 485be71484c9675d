//! Reading many records: pages, counts and sizes. These may scan, and run on a thread of their own.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use oncekey_core::{State, Timestamp};
use oncekey_store::{Cursor, Filter, Listed, Page, Stats};
use rusqlite::{Connection, params};

use crate::error::Failure;
use crate::row::{self, columns, micros};

/// Narrows by what columns say; `Filter::matches` has the last word, on the record that was read.
macro_rules! list {
    ($index:literal, $states:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM records ",
            $index,
            " LEFT JOIN nodes USING (owner) WHERE records.seq < ?1 AND ",
            $states,
            " AND (?2 IS NULL OR namespace = ?2) AND (?3 IS NULL OR scope = ?3) AND (?4 IS NULL OR key = ?4) \
             AND (?5 IS NULL OR route = ?5) AND (?6 IS NULL OR started <= ?6) ORDER BY records.seq DESC"
        )
    };
}

/// All records, newest claim first: the table's own order.
const LIST: &str = list!("", "(?7 IS NULL OR state = ?7)");

/// What may count as processing or unknown: few among many, found by their index.
const LIST_OPEN: &str = list!(
    "INDEXED BY records_open",
    "state IN ('processing', 'unknown') AND (?7 IS NULL OR state = ?7 OR state = 'processing')"
);

/// A page of records, as of `now`.
pub(crate) fn list(
    connection: &Connection,
    filter: &Filter,
    cursor: Option<Cursor>,
    limit: u32,
    now: Timestamp,
) -> Result<Page, Failure> {
    let before = cursor.map_or(Ok(i64::MAX), |cursor| position(&cursor))?;
    let is_open = matches!(filter.state, Some(State::Processing | State::Unknown));
    let mut statement = connection.prepare_cached(if is_open { LIST_OPEN } else { LIST })?;
    let mut rows = statement.query(params![
        before,
        filter.namespace,
        filter.scope,
        filter.key,
        filter.route,
        filter.older_than.map(|age| now.as_micros().saturating_sub(micros(age))),
        filter.state.map(State::name),
    ])?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (mut page, mut last) = (Page { records: Vec::new(), next: None }, None);
    while let Some(row) = rows.next()? {
        let stored = row::decode(row)?;
        let owner_alive = stored.owner_alive(now);
        if !filter.matches(&stored.record, owner_alive, now) {
            continue;
        }
        if page.records.len() == limit {
            page.next = last.map(|seq: i64| Cursor(seq.to_string()));
            break;
        }
        last = Some(stored.seq);
        page.records.push(Listed { record: stored.record, owner_alive, now });
    }
    Ok(page)
}

/// The number after which a part begins.
pub(crate) fn position(cursor: &Cursor) -> Result<i64, Failure> {
    cursor.0.parse().ok().filter(|seq| *seq >= 0).ok_or(Failure::Refused("no cursor of this store"))
}

/// Counts by state (a lapsed claim counts as unknown, swept or not), and the size.
pub(crate) fn stats(connection: &Connection, path: &Path, now: Timestamp) -> Result<Stats, Failure> {
    let mut records: BTreeMap<_, _> = State::ALL.map(|state| (state.name(), 0)).into();
    // What has ended is counted over an index only; of what is open, there are few.
    let mut count = connection.prepare_cached(
        "SELECT state, count(*) FROM records INDEXED BY records_expiry WHERE expires IS NOT NULL GROUP BY state \
         UNION ALL SELECT iif(deadline <= ?1 OR alive_until IS NULL OR alive_until <= ?1, 'unknown', 'processing'), \
         count(*) FROM records INDEXED BY records_open LEFT JOIN nodes USING (owner) \
         WHERE state IN ('processing', 'unknown') AND state = 'processing' GROUP BY 1",
    )?;
    let mut rows = count.query([now.as_micros()])?;
    while let Some(row) = rows.next()? {
        let state = row.get_ref(0)?.as_str().ok().and_then(|name| name.parse::<State>().ok());
        let counted = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
        if let Some(state) = state {
            *records.entry(state.name()).or_default() += counted;
        }
    }
    Ok(Stats { records, bytes: size(connection, path)? })
}

/// The bytes of the database with its write-ahead log.
pub(crate) fn size(connection: &Connection, path: &Path) -> Result<u64, Failure> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let database = u64::try_from(number("page_count")?.saturating_mul(number("page_size")?)).unwrap_or(0);
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    Ok(database + fs::metadata(log).map_or(0, |metadata| metadata.len()))
}
