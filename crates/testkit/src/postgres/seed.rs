//! The table of the code that oncekey grew from.

/// Its SQL, as an article on keys in PostgreSQL would have it.
pub const SEED_TABLE: &str = "\
CREATE TABLE idempotency_keys (
    id BIGSERIAL PRIMARY KEY,
    account_id TEXT NOT NULL,
    idempotency_key VARCHAR(255) NOT NULL,
    request_hash VARCHAR(64) NOT NULL,
    status VARCHAR(20) NOT NULL DEFAULT 'processing',
    response_status INTEGER,
    response_body JSONB,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    expires_at TIMESTAMPTZ NOT NULL,
    UNIQUE (account_id, idempotency_key)
);
CREATE INDEX idempotency_keys_expires_at ON idempotency_keys (expires_at)";
