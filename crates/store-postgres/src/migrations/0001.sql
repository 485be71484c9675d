-- Schema version 1.
--
-- Durations are microseconds. All times are the server's; no node's clock is ever stored.

-- One row for each operation: namespace, scope and key, and what became of it.
--
-- The outcome is written into the row of the claim without touching an indexed column, so that the update stays within the
-- page (HOT) and no index grows by it: each request costs one entry in each index, made by its claim.
CREATE TABLE idempotency_keys (
    -- The operation id, derived from the four fields below; they are compared with it whenever a row is read.
    id BYTEA NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    namespace TEXT COLLATE "C" NOT NULL,
    scope_source TEXT COLLATE "C" NOT NULL,
    account_id TEXT COLLATE "C" NOT NULL,
    idempotency_key TEXT COLLATE "C" NOT NULL,

    status TEXT COLLATE "C" NOT NULL CHECK (status IN ('processing', 'completed', 'failed', 'unknown')),
    -- The claim that governs the record, and the process that made it; every later write compares the token.
    token BYTEA NOT NULL CHECK (octet_length(token) = 16),
    owner BYTEA NOT NULL CHECK (octet_length(owner) = 16),
    -- The order of the governing claims: listings go by it.
    claim_no BIGINT NOT NULL,
    -- The fingerprint: SHA-256, and the settings it was made by.
    request_hash BYTEA NOT NULL CHECK (octet_length(request_hash) = 32),
    recipe TEXT NOT NULL,
    -- The request, as operators see it.
    route TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,

    -- Fixed by the claim, so that any process can age the record without knowing its route.
    run_micros BIGINT NOT NULL,
    ttl_micros BIGINT NOT NULL,
    unknown_ttl_micros BIGINT NOT NULL,
    -- First claim; governing claim; end of `processing`; when the claim lapses; when the record counts as absent.
    created_at TIMESTAMPTZ NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    completed_at TIMESTAMPTZ,
    deadline TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ,
    -- Not before this can the record have expired. What a sweep looks for; known when the claim is made, so that the usual
    -- outcome leaves it alone.
    sweep_at TIMESTAMPTZ NOT NULL,
    -- Set while `unknown`, and NULL in every other state: the few that an operator looks for among the many.
    unknown_since TIMESTAMPTZ,

    attempts INTEGER NOT NULL,
    replays BIGINT NOT NULL,
    -- The recorded response: status and header lines in oncekey's own encoding, and the body as it was sent. A body that is
    -- NULL beside a status was streamed to the first client and not kept; that isn't an empty body.
    response_status SMALLINT,
    response_headers BYTEA,
    response_body BYTEA,
    CHECK ((response_status IS NULL) = (response_headers IS NULL)),
    CHECK (response_body IS NULL OR response_status IS NOT NULL),
    -- Only a running record has no end, and none has an end without an expiry.
    CHECK ((status = 'processing') = (completed_at IS NULL) AND (status = 'processing') = (expires_at IS NULL)),
    CHECK ((status = 'unknown') = (unknown_since IS NOT NULL))
) WITH (
    -- Room in each page for the outcomes of its claims, which are about as long again as their claims. Less room saves no
    -- space: outcomes that find none take it elsewhere, and an entry in each index with it.
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);

-- Bodies often come compressed, and compressing them again would cost the server more than it saves.
ALTER TABLE idempotency_keys ALTER COLUMN response_body SET STORAGE EXTERNAL;

CREATE SEQUENCE idempotency_claims OWNED BY idempotency_keys.claim_no;

-- Listings, newest claim first.
CREATE INDEX idempotency_keys_claim ON idempotency_keys (claim_no);
-- What may have expired.
CREATE INDEX idempotency_keys_sweep ON idempotency_keys (sweep_at);
-- Claims whose own deadline has passed.
CREATE INDEX idempotency_keys_deadline ON idempotency_keys (deadline);
-- What waits for an operator.
CREATE INDEX idempotency_keys_unknown ON idempotency_keys (claim_no) WHERE unknown_since IS NOT NULL;

-- The processes that claim, and until when each one's heartbeat is valid. No row is the same as a lapsed one.
CREATE TABLE idempotency_nodes (
    owner BYTEA NOT NULL PRIMARY KEY CHECK (octet_length(owner) = 16),
    alive_until TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 50);

-- How far sweeping has come: every claim whose deadline is before this was seen to have ended, or was marked. Only a hint
-- that saves work; a sweep looks somewhat further back.
CREATE TABLE idempotency_sweeps (
    one BOOLEAN NOT NULL PRIMARY KEY DEFAULT TRUE CHECK (one),
    lapsed_until TIMESTAMPTZ NOT NULL
);
INSERT INTO idempotency_sweeps (lapsed_until) VALUES ('-infinity');
