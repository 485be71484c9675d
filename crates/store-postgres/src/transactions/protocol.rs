//! The statements of a transaction that holds a claim, on whatever driver they are sent.
//!
//! Those without parameters go as one message of the simple protocol, so that one round trip is enough; whatever a client
//! chose or an upstream answered goes as a parameter, which no server log repeats.

use std::time::Duration;

use oncekey_core::response::RecordedBody;
use oncekey_core::{Event, State, Timestamp, transition};
use oncekey_store::{Claim, Outcome};
use tokio_postgres::types::Type;

use super::trouble::Trouble;
use super::{Isolation, TransactionOptions};
use crate::row::micros;

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Bytes(Option<&'a [u8]>),
    Text(Option<&'a str>),
    Int(Option<i64>),
    Small(Option<i16>),
    Bool(bool),
}

/// Rows as text, as the simple protocol gives them.
pub(super) type Rows = Vec<Vec<Option<String>>>;

/// What a transaction's statements say, made from its claim.
pub(super) struct Script {
    /// What begins it. It takes no snapshot.
    pub(super) begin: String,
    /// What takes the lock, looks for the record (see `Ground::looks_apart`) and sets the savepoint: each statement sees what was committed before it.
    pub(super) open: String,
    /// The number of the advisory lock. Two operations that share it wait for each other in vain, and no worse.
    pub(super) lock: i64,
    savepoint: String,
    guard: String,
}

impl Script {
    /// `looks`: whether it looks for the record.
    pub(super) fn new(claim: &Claim, options: &TransactionOptions, now: Option<Timestamp>, looks: bool) -> Self {
        let id = claim.identity.id();
        let mut front = [0; 8];
        front.copy_from_slice(&id.as_bytes()[..8]);
        let lock = i64::from_be_bytes(front);
        let guard = hex(claim.token.as_bytes());
        let savepoint = format!("oncekey_{guard}");
        // A process that is paused holds its claim no longer than its handler may run.
        let begin = begin(options, claim.lifetimes.run);
        let now = now.map_or("statement_timestamp()".to_owned(), |now| {
            format!("timestamptz 'epoch' + {}::bigint * interval '1 microsecond'", now.as_micros())
        });
        let id = hex(id.as_bytes());
        let looking = if looks {
            format!(
                "SELECT (extract(epoch FROM clock.now) * 1000000)::bigint::text, encode(k.token, 'hex'), k.status, \
                     k.attempts::text, (k.status = 'processing' AND k.deadline > clock.now \
                         AND coalesce(n.alive_until > clock.now, false))::text \
                     FROM (SELECT {now} AS now) AS clock LEFT JOIN idempotency_keys AS k ON k.id = '\\x{id}' \
                     LEFT JOIN idempotency_nodes AS n USING (owner)"
            )
        } else {
            format!("SELECT (extract(epoch FROM {now}) * 1000000)::bigint::text")
        };
        let open = format!(
            "SELECT pg_try_advisory_xact_lock({lock})::text, pg_backend_pid()::text, \
                 set_config('oncekey.claim', '{guard}', true), {NOTED}; \
             {looking}; SAVEPOINT {savepoint}"
        );
        Self { begin, open, lock, savepoint, guard }
    }

    /// What keeps the handler's rows, and gives the record's own statement the surroundings that it needs whatever the handler
    /// has set. Fails if the transaction isn't the one that was begun, or can't be committed.
    pub(super) fn keep(&self, lock_timeout: Duration) -> String {
        format!("RELEASE SAVEPOINT {}; {}", self.savepoint, surroundings(lock_timeout))
    }

    /// The same without the handler's rows.
    pub(super) fn discard(&self, lock_timeout: Duration) -> String {
        format!("ROLLBACK TO SAVEPOINT {}; {}", self.savepoint, surroundings(lock_timeout))
    }

    /// Rolls back all. Fails if the transaction isn't the one that was begun.
    pub(super) fn roll_back(&self) -> String {
        format!("ROLLBACK TO SAVEPOINT {}; ROLLBACK", self.savepoint)
    }

    /// What a test breaks (`fault`): commits the handler's rows, and begins once more for the record.
    pub(super) fn apart(&self) -> String {
        format!("RELEASE SAVEPOINT {}; COMMIT; {}; {}", self.savepoint, self.begin, self.open)
    }

    /// What [`WRITE`] compares with the transaction's own.
    pub(super) fn guard(&self) -> &str {
        &self.guard
    }

    /// Ends the session `pid` if it holds this lock, and with it the transaction.
    pub(super) const TERMINATE: &str = "\
        SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = $1 \
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
            AND (classid::bigint << 32) | objid::bigint = $2 AND objsubid = 1";

    /// Waits until no transaction holds the lock.
    pub(super) const WAIT: &str = "\
        WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', $2, true)) \
        SELECT pg_advisory_xact_lock($1) FROM patience";
}

/// Begins a transaction, which a process that is paused for longer than `idle` loses.
pub(super) fn begin(options: &TransactionOptions, idle: Duration) -> String {
    let isolation = match options.isolation {
        Isolation::Default => "",
        Isolation::ReadCommitted => " ISOLATION LEVEL READ COMMITTED",
        Isolation::RepeatableRead => " ISOLATION LEVEL REPEATABLE READ",
        Isolation::Serializable => " ISOLATION LEVEL SERIALIZABLE",
    };
    format!(
        "BEGIN{isolation} READ WRITE; SET LOCAL lock_timeout = {}; \
         SET LOCAL idle_in_transaction_session_timeout = {}",
        millis(options.lock_timeout),
        millis(idle),
    )
}

/// Columns that note what a handler may change of its surroundings.
pub(super) const NOTED: &str = "\
    set_config('oncekey.role', current_setting('role'), true), \
    set_config('oncekey.search_path', current_setting('search_path'), true), \
    set_config('oncekey.synchronous_commit', current_setting('synchronous_commit'), true)";

/// A COMMIT must not be cut short: it would be there, and perhaps on no standby. Nor must it be less safe than others of its pool,
/// for the record is promised whatever the handler's rows are worth to it. A prepared [`WRITE`] is planned once, for a table that
/// will grow (see `prepared`).
pub(super) fn surroundings(lock_timeout: Duration) -> String {
    format!(
        "SELECT set_config('role', current_setting('oncekey.role'), true), \
             set_config('search_path', current_setting('oncekey.search_path'), true), \
             set_config('synchronous_commit', current_setting('oncekey.synchronous_commit'), true), \
             set_config('lock_timeout', '{}', true), set_config('statement_timeout', '0', true), \
             set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true), \
             set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), \
             set_config('enable_material', 'off', true), set_config('jit', 'off', true)",
        millis(lock_timeout)
    )
}

/// Writes the whole record: in place of the one that the claimant saw, or as a new one. If neither can be done, or if the
/// transaction isn't the one that was begun (`$2`; NULL: any will do), it divides by zero, so that nothing can be committed
/// after it. A first claim (`$24` is NULL) reads no record: under SERIALIZABLE it would be taken to have read its neighbours, which
/// others are writing. Whether an owner lives is read under a lock, as two-commit claims do (E10).
pub(super) const WRITE: &str = "\
    WITH clock AS MATERIALIZED ( \
        SELECT coalesce(timestamptz 'epoch' + $1 * interval '1 microsecond', clock_timestamp()) AS now, \
            timestamptz 'epoch' + $19 * interval '1 microsecond' AS started \
        WHERE $2::text IS NULL OR current_setting('oncekey.claim', true) = $2), \
    times AS MATERIALIZED ( \
        SELECT now, started, started + $15 * interval '1 microsecond' AS deadline, \
            now + CASE $18 WHEN 'unknown' THEN $17 ELSE $16 END * interval '1 microsecond' AS expires, \
            CASE $18 WHEN 'unknown' THEN now END AS unknown_since, \
            CASE $18 WHEN 'unknown' THEN now + $17 * interval '1 microsecond' \
                ELSE started + least($16, $17) * interval '1 microsecond' END AS sweep \
        FROM clock), \
    living AS MATERIALIZED ( \
        SELECT n.owner, n.alive_until FROM idempotency_nodes AS n WHERE n.owner = ( \
            SELECT o.owner FROM idempotency_keys AS o WHERE $24::bytea IS NOT NULL AND o.id = $3 AND o.token = $24 AND o.status = 'processing') \
        FOR SHARE), \
    replaced AS ( \
        UPDATE idempotency_keys AS k SET status = $18, token = $8, owner = $9, \
            request_hash = CASE WHEN $26 THEN $10 ELSE k.request_hash END, \
            recipe = CASE WHEN $26 THEN $11 ELSE k.recipe END, \
            route = $12, method = $13, path = $14, run_micros = $15, ttl_micros = $16, unknown_ttl_micros = $17, \
            created_at = CASE WHEN $26 THEN started ELSE k.created_at END, started_at = started, completed_at = now, \
            deadline = t.deadline, expires_at = expires, sweep_at = sweep, unknown_since = t.unknown_since, \
            claim_no = nextval('idempotency_claims'), \
            attempts = CASE WHEN $26 THEN 1 ELSE least(k.attempts, 2147483646) + 1 END, \
            replays = CASE WHEN $26 THEN 0 ELSE k.replays END, \
            response_status = $21, response_headers = $22, response_body = $23 \
        FROM times AS t \
        WHERE $24::bytea IS NOT NULL AND k.id = $3 AND k.token = $24 AND k.status = $25 \
            AND NOT (k.status = 'processing' AND k.deadline > now AND EXISTS ( \
                SELECT FROM living AS n WHERE n.owner = k.owner AND n.alive_until > now)) \
        RETURNING expires_at, completed_at), \
    inserted AS ( \
        INSERT INTO idempotency_keys (id, namespace, scope_source, account_id, idempotency_key, token, owner, request_hash, \
            recipe, route, method, path, run_micros, ttl_micros, unknown_ttl_micros, status, created_at, started_at, \
            completed_at, deadline, expires_at, sweep_at, unknown_since, claim_no, attempts, replays, \
            response_status, response_headers, response_body) \
        SELECT $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, started, started, \
            now, deadline, expires, sweep, unknown_since, nextval('idempotency_claims'), $20, 0, $21, $22, $23 \
        FROM times WHERE NOT EXISTS (SELECT FROM replaced) \
        ON CONFLICT (id) DO NOTHING \
        RETURNING expires_at, completed_at) \
    SELECT (extract(epoch FROM max(expires_at)) * 1000000)::bigint, \
        (extract(epoch FROM max(completed_at)) * 1000000)::bigint, 1 / count(*) \
    FROM (SELECT * FROM replaced UNION ALL SELECT * FROM inserted) AS written";

/// The types of its parameters, as [`Written::values`] gives them.
#[rustfmt::skip]
pub(super) const WRITE_TYPES: [Type; 26] = [
    Type::INT8, Type::TEXT, Type::BYTEA, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::BYTEA, Type::BYTEA,
    Type::BYTEA, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::INT8, Type::INT8, Type::INT8, Type::TEXT,
    Type::INT8, Type::INT8, Type::INT2, Type::BYTEA, Type::BYTEA, Type::BYTEA, Type::TEXT, Type::BOOL,
];

/// What [`WRITE`] writes.
pub(super) struct Written {
    id: [u8; 16],
    recipe: String,
    state: State,
    head: Option<Vec<u8>>,
    claim: Claim,
    outcome: Outcome,
    started: Timestamp,
    attempt: u32,
}

impl Written {
    /// `None` if the event ends no claim.
    pub(super) fn new(claim: &Claim, outcome: Outcome, started: Timestamp, attempt: u32) -> Option<Self> {
        let state = match outcome.event {
            Event::Complete | Event::Fail | Event::WriteOff => {
                transition(Some(State::Processing), outcome.event, true).ok()?
            }
            _ => return None,
        };
        let head = outcome.response.as_ref().map(|response| response.encode_head());
        let recipe = claim.fingerprint.recipe().to_string();
        let id = *claim.identity.id().as_bytes();
        Some(Self { id, recipe, state, head, claim: claim.clone(), outcome, started, attempt })
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// The parameters of [`WRITE`].
    pub(super) fn values<'a>(&'a self, now: Option<Timestamp>, guard: Option<&'a str>) -> [Value<'a>; 26] {
        let Claim { identity, token, owner, fingerprint, origin, lifetimes, replaces } = &self.claim;
        let text = |text: &'a str| Value::Text(Some(text));
        let bytes = |bytes: &'a [u8]| Value::Bytes(Some(bytes));
        let response = self.outcome.response.as_deref();
        let body = response.and_then(|response| match &response.body {
            RecordedBody::Stored(body) => Some(&body[..]),
            RecordedBody::NotStored => None,
        });
        [
            Value::Int(now.map(Timestamp::as_micros)),
            Value::Text(guard),
            bytes(&self.id),
            text(identity.namespace.as_str()),
            text(identity.scope.source()),
            text(identity.scope.value()),
            text(identity.key.as_str()),
            bytes(token.as_bytes()),
            bytes(owner.as_bytes()),
            bytes(fingerprint.digest()),
            text(&self.recipe),
            text(&origin.route),
            text(&origin.method),
            text(&origin.path),
            Value::Int(Some(micros(lifetimes.run))),
            Value::Int(Some(micros(lifetimes.ttl))),
            Value::Int(Some(micros(lifetimes.unknown_ttl))),
            text(self.state.name()),
            Value::Int(Some(self.started.as_micros())),
            Value::Int(Some(i64::from(self.attempt))),
            Value::Small(response.map(|response| i16::try_from(response.status.as_u16()).unwrap_or(i16::MAX))),
            Value::Bytes(self.head.as_deref()),
            Value::Bytes(body),
            Value::Bytes(replaces.as_ref().map(|seen| &seen.token.as_bytes()[..])),
            Value::Text(replaces.as_ref().map(|seen| seen.state.name())),
            Value::Bool(replaces.is_some_and(|seen| seen.expired)),
        ]
    }
}

/// What [`Script::open`] found.
pub(super) struct Opened {
    /// Whether the lock is ours.
    pub(super) locked: bool,
    /// The server's process.
    pub(super) pid: i32,
    pub(super) now: Timestamp,
    pub(super) seen: Option<Seen>,
}

/// The record that is there.
pub(super) struct Seen {
    token: String,
    status: String,
    attempts: u32,
    live: bool,
}

impl Opened {
    pub(super) fn read(rows: &Rows) -> Result<Self, Trouble> {
        let cell = |row: usize, column: usize| rows.get(row)?.get(column)?.as_deref();
        let read = || {
            let seen = match cell(1, 1) {
                None => None,
                Some(token) => Some(Seen {
                    token: token.to_owned(),
                    status: cell(1, 2)?.to_owned(),
                    attempts: cell(1, 3)?.parse().ok()?,
                    live: cell(1, 4)? == "true",
                }),
            };
            Some(Self {
                locked: cell(0, 0)? == "true",
                pid: cell(0, 1)?.parse().ok()?,
                now: Timestamp::from_micros(cell(1, 0)?.parse().ok()?),
                seen,
            })
        };
        read().ok_or(Trouble::Unexpected)
    }

    /// The attempt that the claim would be; `None` if the record is in its way. As `change::on_claim` judges.
    pub(super) fn attempt(&self, claim: &Claim) -> Option<u32> {
        let Some(seen) = &self.seen else { return Some(1) };
        let replaces = claim.replaces?;
        let same = hex(replaces.token.as_bytes()) == seen.token && replaces.state.name() == seen.status;
        if !same || seen.live {
            return None;
        }
        let earlier = (!replaces.expired).then_some(replaces.state);
        transition(earlier, Event::Claim, true).ok()?;
        Some(if replaces.expired { 1 } else { seen.attempts.saturating_add(1) })
    }
}

/// As the server's settings take it: whole, at least one, and not past their range.
fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX).max(1)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
