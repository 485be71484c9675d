-- Schema version 1.
--
-- All times and durations are microseconds, times since 1970-01-01T00:00:00Z by the store's clock.

-- One row for each operation: namespace, scope and key, and what became of it.
CREATE TABLE records (
    -- The order of the governing claims: a claim always inserts, also when it replaces, so the newest has the highest.
    -- A rowid rather than the id as the primary key: inserting random ids into the tree that holds whole rows would
    -- dirty a page for each of them, where this dirties one for many (the index on id alone is small).
    seq INTEGER PRIMARY KEY,
    -- The operation id, derived from the four fields below; they are compared with it whenever a row is read.
    id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    namespace TEXT NOT NULL,
    scope_source TEXT NOT NULL,
    scope TEXT NOT NULL,
    key TEXT NOT NULL,

    state TEXT NOT NULL CHECK (state IN ('processing', 'completed', 'failed', 'unknown')),
    -- The claim that governs the record, and the process that made it; every later write compares the token.
    token BLOB NOT NULL CHECK (length(token) = 16),
    owner BLOB NOT NULL CHECK (length(owner) = 16),
    -- SHA-256, and the settings it was made by.
    fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
    recipe TEXT NOT NULL,
    -- The request, as operators see it.
    route TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,

    -- Durations that the claim fixed, so that any process can age the record without knowing its route.
    run INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    unknown_ttl INTEGER NOT NULL,
    -- First claim; governing claim; end of `processing`; when the claim lapses; when the record counts as absent.
    created INTEGER NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER,
    deadline INTEGER NOT NULL,
    expires INTEGER,

    -- Set if and only if there is a row in `responses`.
    response_status INTEGER,
    attempts INTEGER NOT NULL,
    replays INTEGER NOT NULL,
    -- Only a running record has no end, and none has an end without an expiry.
    CHECK ((state = 'processing') = (ended IS NULL) AND (state = 'processing') = (expires IS NULL))
) STRICT;

-- What an operator or a sweep looks for among the many that are completed. Ordered by seq within a state.
CREATE INDEX records_open ON records (state) WHERE state IN ('processing', 'unknown');

-- What a sweep deletes, oldest first. The state is there so that counting needs no row.
CREATE INDEX records_expiry ON records (expires, state) WHERE expires IS NOT NULL;

-- Recorded responses, apart from the records, so that what reads only records never passes over bodies.
CREATE TABLE responses (
    seq INTEGER PRIMARY KEY REFERENCES records (seq) ON DELETE CASCADE,
    -- Status and header lines, in the encoding of oncekey-core.
    head BLOB NOT NULL,
    -- NULL: streamed to the first client and not kept. That isn't an empty body.
    body BLOB
) STRICT;

-- The processes that claim, and until when each one's heartbeat is valid. No row is the same as a lapsed one.
CREATE TABLE nodes (
    owner BLOB NOT NULL PRIMARY KEY CHECK (length(owner) = 16),
    alive_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
