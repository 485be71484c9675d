-- Schema version 3.

-- What executions have saved by name for the next execution of the operation to go on from: its recovery points. A row is
-- written only while the record bears the execution's token, and goes with the record.
CREATE TABLE idempotency_steps (
    -- The operation id.
    id BYTEA NOT NULL CHECK (octet_length(id) = 16),
    -- The record's `created_at`: under a key that is used afresh after its record has expired, nothing is gone on from.
    record_created_at TIMESTAMPTZ NOT NULL,
    name TEXT COLLATE "C" NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 64),
    -- Which execution saved it.
    attempt INTEGER NOT NULL,
    -- JSON, as it was written.
    value TEXT COLLATE "C" NOT NULL CHECK (octet_length(value) <= 65536),
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id, record_created_at, name)
);
