//! What the growth of the table costs: claims, replays and sweeps on PostgreSQL at ten times more records each time.
//!
//! The records between two measurements are made by SQL, as the gateway would have made them; what is measured goes through the
//! gateway. At the end, churn: first executions and sweeps of them for a while, and what the table looks like then.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use oncekey_testkit::{PostgresServer, Process, Release};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::gateway::{start_gateway, start_plain};
use super::load::{Clients, Keys};
use super::postgres::{Look, SETTINGS, per};
use super::report::{Outcome, command_line, cpus};
use crate::Result;

/// How far it goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    from: u64,
    up_to: u64,
    /// How long claims are measured at each size.
    span: Duration,
    /// How many recorded keys are replayed once each, and how many expired records are swept.
    some: u64,
    churn: Duration,
}

impl Course {
    /// The same, up to another number of records.
    pub(super) const fn up_to(self, up_to: u64) -> Self {
        Self { up_to, ..self }
    }
}

/// The course whose numbers count.
pub(super) const FULL: Course = Course {
    from: 10_000,
    up_to: 10_000_000,
    span: Duration::from_secs(10),
    some: 5000,
    churn: Duration::from_secs(30),
};

/// The course that shows that the benchmark runs.
pub(super) const QUICK: Course =
    Course { from: 1000, up_to: 10_000, span: Duration::from_secs(1), some: 200, churn: Duration::from_secs(2) };

const CLIENTS: usize = 32;
const RECORDING: Duration = Duration::from_mins(5);
/// Later than the gateway's `cache_for`.
const OLD: Duration = Duration::from_millis(1200);

/// Completed records of the kind that the gateway makes, `$1` of them, in an order that tells nothing about their ids.
const FILL: &str = "INSERT INTO idempotency_keys (id, namespace, scope_source, account_id, idempotency_key, token, owner, claim_no, \
     request_hash, recipe, route, method, path, run_micros, ttl_micros, unknown_ttl_micros, created_at, started_at, deadline, \
     attempts, replays, status, completed_at, expires_at, sweep_at, response_status, response_headers, response_body) \
 SELECT uuid_send(gen_random_uuid()), 'default', 'header:X-Account-Id', 'filler', 'filler-' || claim_no, \
     uuid_send(gen_random_uuid()), decode(repeat('07', 16), 'hex'), claim_no, sha256(claim_no::text::bytea), 'v2', '*', 'POST', \
     '/orders', 630000000, 172800000000, 2592000000000, at, at, at + interval '630 s', 1, 0, 'completed', at, \
     at + interval '48 h', at + interval '48 h', 201, convert_to(E'1 201 stored\ncontent-type:application/json\n\n', 'UTF8'), \
     convert_to(repeat('x', 192), 'UTF8') \
 FROM (SELECT nextval('idempotency_claims') AS claim_no, clock_timestamp() AS at FROM generate_series(1, $1::bigint)) AS s";

/// What one size showed. Times are microseconds, of CPU the gateway's and the server's together.
struct Size {
    records: u64,
    claim: Cost,
    replay: Cost,
    sweep: Cost,
    wal_per_claim: f64,
    table_per_record: f64,
    indexes_per_record: f64,
}

#[derive(Clone, Copy)]
struct Cost {
    cpu: f64,
    p50: f64,
}

struct Stand<'a> {
    program: &'a Path,
    server: PostgresServer,
    database: String,
    look: Look,
    gateway: (Process, SocketAddr),
    _upstream: Process,
}

/// Runs the benchmark against a build of the gateway.
pub(super) async fn run(program: &Path, course: &Course) -> Result<Outcome> {
    let stand = Stand::start(program).await?;
    let keys = Arc::new(Keys::old_once(course.some));
    Clients::connect(stand.gateway.1, CLIENTS, false).await?.drive(&keys, RECORDING).await?;
    let mut sizes = Vec::new();
    let mut records = course.from;
    while records <= course.up_to {
        eprintln!("{records} records");
        stand.fill(records).await?;
        sizes.push(stand.measure(records, course).await?);
        records *= 10;
    }
    let churn = stand.churn(course).await?;
    Ok(report(&sizes, &churn))
}

impl<'a> Stand<'a> {
    async fn start(program: &'a Path) -> Result<Self> {
        let settings = format!("{SETTINGS}shared_buffers = 1GB\nmax_wal_size = 8GB\n");
        let server = spawn_blocking(move || PostgresServer::start_with(Release::V15, &settings, &[])).await??;
        let database = server.database().await?;
        let (upstream, address) = start_plain(Command::new(std::env::current_exe()?).arg("plain-upstream")).await?;
        let gateway = start_gateway(program, address, &server.url(&database)).await?;
        let look = Look::connect(&server, &database).await?;
        Ok(Self { program, server, database, look, gateway, _upstream: upstream })
    }

    /// Brings the table to that many records, in steps that keep a transaction short.
    async fn fill(&self, records: u64) -> Result {
        let mut missing = i64::try_from(records)? - self.look.number("SELECT count(*) FROM idempotency_keys").await?;
        while missing > 0 {
            let step = missing.min(100_000);
            self.look.client.execute(FILL, &[&step]).await?;
            missing -= step;
        }
        // What autovacuum and the checkpointer would come to do during the measurement is done before it.
        self.look.client.batch_execute("VACUUM ANALYZE idempotency_keys").await?;
        Ok(self.look.client.batch_execute("CHECKPOINT").await?)
    }

    fn cpu(&self) -> Result<Duration> {
        Ok(self.gateway.0.cpu_time()? + self.server.cpu_time()?)
    }

    async fn measure(&self, records: u64, course: &Course) -> Result<Size> {
        let sizes = "SELECT pg_table_size('idempotency_keys'), pg_indexes_size('idempotency_keys'), count(*) FROM idempotency_keys";
        let row = self.look.client.query_one(sizes, &[]).await?;
        let there = u64::try_from(row.try_get::<_, i64>(2)?)?;
        let (table_per_record, indexes_per_record) = (per(row.try_get(0)?, there), per(row.try_get(1)?, there));
        // Read once before: the first look at a page comes from the disk, at any size.
        let wal = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
        let before = self.look.number(wal).await?;
        let (claim, requests) = self.drive(Keys::fresh(format!("size-{records}")), false, course.span).await?;
        let wal_per_claim = per(self.look.number(wal).await? - before, requests);
        tokio::time::sleep(OLD).await;
        let (replay, _) = self.drive(Keys::old_once(course.some), true, RECORDING).await?;
        let sweep = self.sweep(course).await?;
        Ok(Size { records, claim, replay, sweep, wal_per_claim, table_per_record, indexes_per_record })
    }

    async fn drive(&self, keys: Keys, replayed: bool, span: Duration) -> Result<(Cost, u64)> {
        let mut clients = Clients::connect(self.gateway.1, CLIENTS, replayed).await?;
        let before = self.cpu()?;
        let measured = clients.drive(&Arc::new(keys), span).await?;
        let cpu = self.cpu()?.saturating_sub(before);
        let p50 = per(i64::try_from(measured.latency.value_at_quantile(0.5))?, 1);
        Ok((Cost { cpu: per(i64::try_from(cpu.as_micros())?, measured.requests), p50 }, measured.requests))
    }

    /// Lets the newest records expire and sweeps them; the cost of one record.
    async fn sweep(&self, course: &Course) -> Result<Cost> {
        let expire = "UPDATE idempotency_keys SET expires_at = now(), sweep_at = now() WHERE claim_no IN \
                      (SELECT claim_no FROM idempotency_keys WHERE account_id = 'filler' ORDER BY claim_no DESC LIMIT $1)";
        let expired = self.look.client.execute(expire, &[&i64::try_from(course.some)?]).await?;
        let mut command = Command::new(self.program);
        command.args(["sweep", "--store", &self.server.url(&self.database)]);
        let (before, begun) = (self.server.cpu_time()?, Instant::now());
        let output = spawn_blocking(move || command.output()).await??;
        if !output.status.success() {
            return Err(format!("sweep: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let (took, cpu) = (begun.elapsed(), self.server.cpu_time()?.saturating_sub(before));
        let each = |time: Duration| Ok::<_, std::num::TryFromIntError>(per(i64::try_from(time.as_micros())?, expired));
        Ok(Cost { cpu: each(cpu)?, p50: each(took)? })
    }

    /// First executions, of which all but the newest expire and are swept meanwhile.
    async fn churn(&self, course: &Course) -> Result<Value> {
        self.look
            .client
            .batch_execute("SELECT pg_stat_reset_single_table_counters('idempotency_keys'::regclass)")
            .await?;
        let begun = Instant::now();
        let mut turn = 0;
        while begun.elapsed() < course.churn {
            self.drive(Keys::fresh(format!("churn-{turn}")), false, course.churn / 8).await?;
            self.sweep(course).await?;
            turn += 1;
        }
        // The server's own counts come up to ten seconds late.
        tokio::time::sleep(Duration::from_secs(11)).await;
        let stat = "SELECT n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del, n_live_tup, n_dead_tup, autovacuum_count, \
                    pg_table_size(relid), pg_indexes_size(relid) FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'";
        let row = self.look.client.query_one(stat, &[]).await?;
        let number = |at: usize| row.try_get::<_, i64>(at);
        Ok(json!({
            "inserted": number(0)?, "updated": number(1)?, "hot": number(2)?, "deleted": number(3)?, "live": number(4)?,
            "dead": number(5)?, "autovacuums": number(6)?, "table_bytes": number(7)?, "index_bytes": number(8)?,
        }))
    }
}

fn report(sizes: &[Size], churn: &Value) -> Outcome {
    let mut text = format!(
        "`{}`: PostgreSQL 15, fsync on, shared_buffers 1 GB, {CLIENTS} clients, {} CPUs shared by all. CPU is the gateway's and the \
         server's together (of a sweep the server's), per request or record swept; WAL is a claim's and its outcome's with the \
         images of pages that follow a checkpoint.{}\n\n",
        command_line(),
        cpus(),
        if cfg!(debug_assertions) { " **A debug build: these numbers mean nothing.**" } else { "" },
    );
    text.push_str("| records | claim CPU µs | p50 ms | replay CPU µs | p50 ms | sweep CPU µs | µs | WAL B/claim | table B | indexes B |\n");
    text.push_str("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for size in sizes {
        let Size { records, claim, replay, sweep, wal_per_claim, table_per_record, indexes_per_record } = size;
        let _ = writeln!(
            text,
            "| {records} | {:.0} | {:.2} | {:.0} | {:.2} | {:.0} | {:.0} | {wal_per_claim:.0} | {table_per_record:.0} | \
             {indexes_per_record:.0} |",
            claim.cpu,
            claim.p50 / 1e3,
            replay.cpu,
            replay.p50 / 1e3,
            sweep.cpu,
            sweep.p50,
        );
    }
    let _ = writeln!(text, "\nChurn: `{churn}`");
    let results: Vec<_> = sizes
        .iter()
        .map(|size| {
            json!({ "records": size.records, "claim_cpu_us": size.claim.cpu, "claim_p50_us": size.claim.p50,
                "replay_cpu_us": size.replay.cpu, "replay_p50_us": size.replay.p50, "sweep_cpu_us": size.sweep.cpu,
                "sweep_us": size.sweep.p50, "wal_bytes_per_claim": size.wal_per_claim,
                "table_bytes_per_record": size.table_per_record, "index_bytes_per_record": size.indexes_per_record })
        })
        .collect();
    Outcome {
        json: json!({ "benchmark": "growth", "command": command_line(), "release_build": !cfg!(debug_assertions),
            "results": results, "churn": churn }),
        markdown: text,
    }
}
