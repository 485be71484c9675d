//! What is watched all the time, at a cost that doesn't grow with the database.
//!
//! What is open is few, and is counted by its index; what has ended is counted up to a bound, and estimated from samples past
//! it. A count kept in the database would be exact, at the price of another page in every commit.

use std::time::Duration;

use oncekey_core::{State, Timestamp};
use oncekey_store::{Gauges, Stats};
use rusqlite::{Connection, params};

use crate::error::Failure;
use crate::listing;

/// Index records that one count reads at most.
const MOST: i64 = 50_000;

/// How many places a sample is taken at, and how many claim numbers each covers.
const SAMPLES: i64 = 200;
const SAMPLE: i64 = 50;

/// See [`oncekey_store::Store::gauges`]; `database` and its log are what the bytes are of.
pub(crate) fn read(connection: &Connection, database: &std::path::Path, now: Timestamp) -> Result<Gauges, Failure> {
    read_at_most(connection, database, now, MOST)
}

fn read_at_most(
    connection: &Connection,
    database: &std::path::Path,
    now: Timestamp,
    most: i64,
) -> Result<Gauges, Failure> {
    let (live, lapsed, oldest) = processing(connection, now, most)?;
    let mut ended = ended(connection, most)?;
    if ended.iter().sum::<i64>() >= most {
        let [completed, failed] = sampled(connection)?;
        ended = [completed, failed, unknown(connection, most)?];
    }
    let [completed, failed, unknown] = ended;
    let records = [
        (State::Processing, live),
        (State::Completed, completed),
        (State::Failed, failed),
        (State::Unknown, unknown + lapsed),
    ];
    let records = records.map(|(state, count)| (state.name(), u64::try_from(count).unwrap_or(0))).into();
    let first = "SELECT min(expires) FROM records INDEXED BY records_expiry WHERE expires IS NOT NULL";
    let first: Option<i64> = connection.prepare_cached(first)?.query_row([], |row| row.get(0))?;
    let first = first.map(Timestamp::from_micros).filter(|expires| *expires <= now);
    Ok(Gauges {
        stats: Stats { records, bytes: listing::size(connection, database)? },
        oldest_processing: oldest,
        oldest_expired: first.map(|expires| now.since(expires)),
    })
}

/// Live claims, lapsed ones, and how long the oldest live one has been running.
fn processing(connection: &Connection, now: Timestamp, most: i64) -> Result<(i64, i64, Option<Duration>), Failure> {
    let mut open = connection.prepare_cached(
        "SELECT count(*) FILTER (WHERE live), count(*) FILTER (WHERE NOT live), min(started) FILTER (WHERE live) FROM ( \
             SELECT started, deadline > ?1 AND ifnull(alive_until > ?1, FALSE) AS live \
             FROM records INDEXED BY records_open LEFT JOIN nodes USING (owner) \
             WHERE state IN ('processing', 'unknown') AND state = 'processing' LIMIT ?2)",
    )?;
    Ok(open.query_row(params![now.as_micros(), most], |row| {
        let started: Option<i64> = row.get(2)?;
        Ok((row.get(0)?, row.get(1)?, started.map(|started| now.since(Timestamp::from_micros(started)))))
    })?)
}

/// Records that have ended: completed, failed, unknown; `most` of them at most.
fn ended(connection: &Connection, most: i64) -> Result<[i64; 3], Failure> {
    let mut count = connection.prepare_cached(
        "SELECT count(*) FILTER (WHERE state = 'completed'), count(*) FILTER (WHERE state = 'failed'), \
             count(*) FILTER (WHERE state = 'unknown') \
         FROM (SELECT state FROM records INDEXED BY records_expiry WHERE expires IS NOT NULL LIMIT ?1)",
    )?;
    Ok(count.query_row([most], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?)
}

fn unknown(connection: &Connection, most: i64) -> Result<i64, Failure> {
    let mut count = connection.prepare_cached(
        "SELECT count(*) FROM (SELECT 1 FROM records INDEXED BY records_open \
         WHERE state IN ('processing', 'unknown') AND state = 'unknown' LIMIT ?1)",
    )?;
    Ok(count.query_row([most], |row| row.get(0))?)
}

/// Completed and failed records, by how many there are at places spread over all claim numbers. The places within their strata
/// follow the golden ratio, so that no regularity of the table can fall in with them.
fn sampled(connection: &Connection) -> Result<[i64; 2], Failure> {
    let bounds = "SELECT (SELECT min(seq) FROM records), (SELECT max(seq) FROM records)";
    let bounds: (Option<i64>, Option<i64>) =
        connection.prepare_cached(bounds)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (Some(first), Some(last)) = bounds else { return Ok([0, 0]) };
    let span = last - first + 1;
    let stratum = (span / SAMPLES).max(SAMPLE);
    let mut count = connection.prepare_cached(
        "SELECT count(*) FILTER (WHERE state = 'completed'), count(*) FILTER (WHERE state = 'failed') \
         FROM records WHERE seq >= ?1 AND seq < ?2",
    )?;
    let (mut completed, mut failed, mut looked_at) = (0, 0, 0);
    for sample in 0..span.div_euclid(stratum).min(SAMPLES) {
        let offset = (sample * 618 % 1000) * (stratum - SAMPLE) / 1000;
        let from = first + sample * stratum + offset;
        let (more, more_failed): (i64, i64) =
            count.query_row([from, from + SAMPLE], |row| Ok((row.get(0)?, row.get(1)?)))?;
        completed += more;
        failed += more_failed;
        looked_at += SAMPLE;
    }
    let scaled = |counted: i64| i64::try_from(i128::from(counted) * i128::from(span) / i128::from(looked_at.max(1)));
    Ok([scaled(completed).unwrap_or(i64::MAX), scaled(failed).unwrap_or(i64::MAX)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqliteOptions;

    /// Two hundred thousand records, a tenth of them failed, with a gap where others were swept.
    #[test]
    fn a_sample_is_near_the_count_and_few_unknown_ones_are_counted() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("records.db");
        crate::migrate(&SqliteOptions::new(&path)).expect("a database");
        let connection = Connection::open(&path).expect("it opens");
        let fill = "INSERT INTO records SELECT value, randomblob(16), 'n', 's', 's', value, \
            CASE WHEN value % 40000 = 7 THEN 'unknown' WHEN value % 10 = 0 THEN 'failed' ELSE 'completed' END, \
            zeroblob(16), zeroblob(16), zeroblob(32), 'v1', '/', 'POST', '/', 1, 1, 1, 1, 1, 1, 1, 1000 + value, NULL, 1, 0 \
            FROM generate_series(1, 240000) WHERE value NOT BETWEEN 60001 AND 100000";
        let series = "WITH RECURSIVE generate_series(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM generate_series \
            WHERE value < 240000) ";
        connection
            .execute_batch(&format!("{series}{}", fill.replace("generate_series(1, 240000)", "generate_series")))
            .expect("filled");
        let gauges = read_at_most(&connection, &path, Timestamp::from_micros(0), 10_000).expect("gauges");
        let count = |state: State| gauges.stats.records[state.name()];
        assert!(count(State::Completed).abs_diff(179_995) < 180_000 / 20, "{gauges:?}");
        assert!(count(State::Failed).abs_diff(20_000) < 20_000 / 10, "{gauges:?}");
        assert_eq!((count(State::Unknown), count(State::Processing)), (5, 0));
        let exact = read_at_most(&connection, &path, Timestamp::from_micros(0), 1_000_000).expect("gauges");
        assert_eq!((exact.stats.records["completed"], exact.stats.records["failed"]), (179_995, 20_000));
    }
}
