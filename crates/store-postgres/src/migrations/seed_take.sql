-- A table of the name that was made before oncekey, by the code that it grew from: its rows are kept for the records that
-- they become, and it makes room for the new one. One of any other shape is refused, and nothing is changed.
DO $seed$
DECLARE differs TEXT;
BEGIN
    IF to_regclass('idempotency_keys') IS NULL THEN
        RETURN;
    END IF;
    LOCK TABLE idempotency_keys IN ACCESS EXCLUSIVE MODE;
    -- What, but for one column that has two usual names, the table must have and may have.
    differs := :differs;
    IF differs IS NOT NULL THEN
        RAISE EXCEPTION '%', differs USING ERRCODE = 'OKDIF';
    END IF;
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('idempotency_keys') AND attname = 'status_code'
               AND NOT attisdropped) THEN
        ALTER TABLE idempotency_keys RENAME COLUMN status_code TO response_status;
    END IF;
    ALTER TABLE idempotency_keys ADD COLUMN IF NOT EXISTS updated_at TIMESTAMPTZ;
    CREATE TEMPORARY TABLE idempotency_seed ON COMMIT DROP AS
        SELECT account_id::text, idempotency_key::text, request_hash::text, status::text, response_status,
            response_body::text, coalesce(created_at, updated_at, now()) AS created_at,
            coalesce(updated_at, created_at, now()) AS updated_at, expires_at
        FROM idempotency_keys;
    -- What depends on it (a view, a foreign key) isn't dropped with it: then this fails, and says what.
    DROP TABLE idempotency_keys;
END $seed$;

