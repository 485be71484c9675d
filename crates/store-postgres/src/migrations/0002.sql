-- Schema version 2: the trail of what operators did by hand.
--
-- A line is written by the statement that makes its change, and says what the record was called then: the record itself may be
-- gone.
CREATE TABLE idempotency_audit (
    -- Rises with each line; listings go by it.
    no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at TIMESTAMPTZ NOT NULL,
    action TEXT COLLATE "C" NOT NULL CHECK (action IN ('resolve', 'purge', 'sweep')),

    -- The record; a sweep is about none.
    id BYTEA CHECK (octet_length(id) = 16),
    namespace TEXT COLLATE "C",
    scope_source TEXT COLLATE "C",
    account_id TEXT COLLATE "C",
    idempotency_key TEXT COLLATE "C",
    route TEXT,
    -- The status it counted as, and the one it was given, if it is still there; the response's that retries get since.
    before TEXT COLLATE "C",
    after TEXT COLLATE "C",
    response_status SMALLINT,

    -- What a sweep did.
    deleted BIGINT,
    lapsed BIGINT,

    -- Who, by which way, from where and why; what belongs to one call.
    who TEXT NOT NULL,
    via TEXT NOT NULL,
    origin TEXT,
    reason TEXT,
    call TEXT NOT NULL,
    CHECK ((action = 'sweep') = (id IS NULL))
);

-- What was done to one record.
CREATE INDEX idempotency_audit_record ON idempotency_audit (id) WHERE id IS NOT NULL;
