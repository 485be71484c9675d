//! Reading many records: pages, counts and sizes. These may take long, and run on a connection of their own.

use std::collections::BTreeMap;

use oncekey_core::State;
use oncekey_store::{Cursor, Filter, Listed, Page, Stats};
use tokio_postgres::types::Type;

use crate::error::Failure;
use crate::row::{self, At, columns, micros};
use crate::session::Session;

/// Narrows by what columns say; `Filter::matches` has the last word, on the record that was read.
macro_rules! list {
    ($with:literal, $of:literal, $states:literal) => {
        concat!(
            $with,
            "SELECT ",
            columns!(),
            " FROM ",
            $of,
            " LEFT JOIN idempotency_nodes AS n ON n.owner = k.owner WHERE k.claim_no < $2 AND ",
            $states,
            " AND ($3 IS NULL OR k.namespace = $3) AND ($4 IS NULL OR k.account_id = $4) \
             AND ($5 IS NULL OR k.idempotency_key = $5) AND ($6 IS NULL OR k.route = $6) \
             AND ($7 IS NULL OR k.started_at <= coalesce($1, statement_timestamp()) - $7 * interval '1 microsecond') \
             ORDER BY k.claim_no DESC LIMIT $9"
        )
    };
}

/// All records, newest claim first.
const LIST: &str = list!("", "idempotency_keys AS k", "($8 IS NULL OR k.status = $8)");

/// What may count as processing or unknown: few among many. What is processing has its deadline after the point that sweeping
/// has come to, or was marked since.
const LIST_OPEN: &str = list!(
    "WITH open AS MATERIALIZED ( \
         SELECT id FROM idempotency_keys WHERE unknown_since IS NOT NULL \
         UNION ALL SELECT id FROM idempotency_keys WHERE status = 'processing' AND deadline > \
             coalesce((SELECT least(lapsed_until, coalesce($1, statement_timestamp())) - interval '1 minute' \
              FROM idempotency_sweeps), '-infinity')) ",
    "open JOIN idempotency_keys AS k USING (id)",
    "($8 IS NULL OR k.status = $8 OR k.status = 'processing')"
);

/// Rows that are read at a time where the filter leaves little: bounded in memory, and few round trips.
const CHUNK: i64 = 500;

/// See [`oncekey_store::Store::list`].
pub(crate) async fn list(
    session: &Session,
    filter: &Filter,
    cursor: Option<Cursor>,
    limit: u32,
) -> Result<Page, Failure> {
    let mut before = cursor.map_or(Ok(i64::MAX), |cursor| position(&cursor))?;
    let is_open = matches!(filter.state, Some(State::Processing | State::Unknown));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let chunk = i64::try_from(limit).unwrap_or(CHUNK).saturating_add(1).min(CHUNK);
    let (mut page, mut last) = (Page { records: Vec::new(), next: None }, None);
    loop {
        let now: Option<At> = session.server().given_time();
        let rows = session
            .read(
                if is_open { LIST_OPEN } else { LIST },
                &[
                    (&now, Type::TIMESTAMPTZ),
                    (&before, Type::INT8),
                    (&filter.namespace, Type::TEXT),
                    (&filter.scope, Type::TEXT),
                    (&filter.key, Type::TEXT),
                    (&filter.route, Type::TEXT),
                    (&filter.older_than.map(micros), Type::INT8),
                    (&filter.state.map(State::name), Type::TEXT),
                    (&chunk, Type::INT8),
                ],
            )
            .await?;
        for row in &rows {
            let stored = row::decode(row)?;
            before = stored.claim_no;
            if !filter.matches(&stored.record, stored.owner_alive, stored.now) {
                continue;
            }
            if page.records.len() == limit {
                page.next = last.map(|claim_no: i64| Cursor(claim_no.to_string()));
                return Ok(page);
            }
            last = Some(stored.claim_no);
            page.records.push(Listed { record: stored.record, owner_alive: stored.owner_alive, now: stored.now });
        }
        if i64::try_from(rows.len()).is_ok_and(|read| read < chunk) {
            return Ok(page);
        }
    }
}

/// The number after which a part begins.
pub(crate) fn position(cursor: &Cursor) -> Result<i64, Failure> {
    cursor.0.parse().ok().filter(|claim_no| *claim_no >= 0).ok_or(Failure::Refused("no cursor of this store"))
}

/// Pages of the table up to which counts are exact: 400 MB, which are read in a second or two.
const EXACT_PAGES: f64 = 50_000.0;

/// Counts and the size; of a large table the counts are estimates.
pub(crate) async fn stats(session: &Session) -> Result<Stats, Failure> {
    Ok(count(session, EXACT_PAGES).await?.0)
}

/// Counts by state (a lapsed claim counts as unknown, swept or not), and the size of the tables with their indexes. Of a table
/// of more than so many pages a sample of about that many is counted; whether it was counted whole is said as well.
pub(crate) async fn count(session: &Session, most_pages: f64) -> Result<(Stats, bool), Failure> {
    const SIZE: &str = "\
        SELECT pg_relation_size('idempotency_keys') / current_setting('block_size')::bigint, \
               pg_total_relation_size('idempotency_keys') + pg_total_relation_size('idempotency_nodes') \
               + pg_total_relation_size('idempotency_audit')";
    const COUNT: &str = "\
        SELECT CASE WHEN k.status = 'processing' AND (k.deadline <= coalesce($1, statement_timestamp()) \
                    OR n.alive_until IS NULL OR n.alive_until <= coalesce($1, statement_timestamp())) \
               THEN 'unknown' ELSE k.status END, count(*) \
        FROM idempotency_keys AS k TABLESAMPLE SYSTEM ($2) LEFT JOIN idempotency_nodes AS n USING (owner) GROUP BY 1";
    let sizes = session.read(SIZE, &[]).await?;
    let size = sizes.first().ok_or(Failure::Refused("the size was not answered"))?;
    let (pages, bytes): (i64, i64) = (size.try_get(0)?, size.try_get(1)?);
    #[expect(clippy::cast_precision_loss, reason = "a part of so many pages need not be exact")]
    let part = (most_pages / (pages.max(1) as f64)).min(1.0);
    #[expect(clippy::cast_possible_truncation, reason = "a percentage")]
    let percent = (part * 100.0) as f32;
    let mut records: BTreeMap<_, _> = State::ALL.map(|state| (state.name(), 0)).into();
    let now = session.server().given_time();
    for row in session.read(COUNT, &[(&now, Type::TIMESTAMPTZ), (&percent, Type::FLOAT4)]).await? {
        let state = row.try_get::<_, &str>(0)?.parse::<State>().ok();
        let counted: i64 = row.try_get(1)?;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count"
        )]
        let counted = if part < 1.0 { (counted as f64 / part) as u64 } else { u64::try_from(counted).unwrap_or(0) };
        if let Some(state) = state {
            *records.entry(state.name()).or_default() += counted;
        }
    }
    Ok((Stats { records, bytes: u64::try_from(bytes).unwrap_or(0) }, part >= 1.0))
}
