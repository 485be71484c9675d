-- Schema version 2: the trail of what operators did by hand.
--
-- A line is written in the transaction of its change, and says what the record was called then: the record itself may be gone.
CREATE TABLE audit (
    -- Rises with each line; listings go by it.
    no INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    action TEXT NOT NULL CHECK (action IN ('resolve', 'purge', 'sweep')),

    -- The record; a sweep is about none.
    id BLOB CHECK (length(id) = 16),
    namespace TEXT,
    scope_source TEXT,
    scope TEXT,
    key TEXT,
    route TEXT,
    -- The state it counted as, and the one it was given, if it is still there; the status that retries get since.
    before TEXT,
    after TEXT,
    response_status INTEGER,

    -- What a sweep did.
    deleted INTEGER,
    lapsed INTEGER,

    -- Who, by which way, from where and why; what belongs to one call.
    who TEXT NOT NULL,
    via TEXT NOT NULL,
    origin TEXT,
    reason TEXT,
    call TEXT NOT NULL,
    CHECK ((action = 'sweep') = (id IS NULL))
) STRICT;

-- What was done to one record.
CREATE INDEX audit_record ON audit (id) WHERE id IS NOT NULL;
