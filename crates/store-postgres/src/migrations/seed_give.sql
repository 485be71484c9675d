
-- The records of such a table's rows. Account, key, state, answer and expiry stay what they were. What it called `processing`
-- has no owner who could end it, and what has an answer that can't be told isn't known to have failed: both may have taken
-- effect, and are `unknown` from now on, for as long as such records are kept.
DO $seed$
DECLARE left_out BIGINT;
BEGIN
    IF to_regclass('pg_temp.idempotency_seed') IS NULL THEN
        RETURN;
    END IF;
    -- No request can carry such a key or account, so none can be met again.
    DELETE FROM pg_temp.idempotency_seed
    WHERE NOT coalesce(idempotency_key COLLATE "C" ~ '^[!-~]{1,255}$', false)
        OR NOT coalesce(length(account_id) BETWEEN 1 AND 255 AND account_id !~ '[\x01-\x1f\x7f-\x9f]', false);
    GET DIAGNOSTICS left_out = ROW_COUNT;
    IF left_out > 0 THEN
        RAISE NOTICE '% rows with keys or accounts that no request can carry were left out', left_out;
    END IF;
    INSERT INTO idempotency_keys (id, namespace, scope_source, account_id, idempotency_key, token, owner, claim_no,
        request_hash, recipe, route, method, path, run_micros, ttl_micros, unknown_ttl_micros, created_at, started_at, deadline,
        attempts, replays, status, completed_at, expires_at, sweep_at, unknown_since,
        response_status, response_headers, response_body)
    SELECT set_byte(set_byte(name, 6, get_byte(name, 6) & 15 | 128), 8, get_byte(name, 8) & 63 | 128),
        'default', 'header:X-Account-Id', account_id, idempotency_key, uuid_send(gen_random_uuid()), decode(repeat('00', 16), 'hex'),
        nextval('idempotency_claims'), digest, 'seed ' || encode(digest, 'hex'), '*', '', '',
        0, 172800000000, 2592000000000, created_at, created_at, created_at, 1, 0,
        state, ended, expires, expires, CASE state WHEN 'unknown' THEN ended END,
        answer,
        CASE WHEN answer IS NOT NULL THEN convert_to(format(E'1 %s %s\n%s\n', answer,
            CASE WHEN body IS NULL THEN 'not-stored' ELSE 'stored' END,
            CASE WHEN body <> '' THEN E'content-type:application/json\n' END), 'UTF8') END,
        convert_to(body, 'UTF8')
    FROM (
        SELECT *,
            -- A hash that is no SHA-256 in hex is met by no request.
            CASE WHEN request_hash ~ '^[0-9A-Fa-f]{64}$' THEN decode(request_hash, 'hex')
                ELSE sha256(convert_to('no fingerprint: ' || coalesce(request_hash, ''), 'UTF8')) END AS digest,
            -- As the operation id is derived on every node: namespace, source, account and key, each behind its length.
            substring(sha256('oncekey/operation/v1'::bytea || int8send(7) || 'default' || int8send(19) || 'header:X-Account-Id'
                || int8send(octet_length(convert_to(account_id, 'UTF8'))) || convert_to(account_id, 'UTF8')
                || int8send(octet_length(idempotency_key)) || convert_to(idempotency_key, 'UTF8')) FROM 1 FOR 16) AS name,
            CASE state WHEN 'unknown' THEN now() ELSE updated_at END AS ended,
            CASE state WHEN 'unknown' THEN greatest(expires_at, now() + interval '30 days')
                ELSE coalesce(expires_at, now() + interval '48 hours') END AS expires,
            CASE WHEN state <> 'unknown' AND is_status THEN response_status END AS answer,
            -- No body beside a status that has one by its nature: what it was, nobody kept.
            CASE WHEN state <> 'unknown' AND is_status THEN
                CASE WHEN response_status IN (204, 304) THEN '' ELSE response_body END END AS body
        FROM (
            SELECT *, CASE WHEN status = 'completed' AND is_status OR status = 'failed' THEN status ELSE 'unknown' END AS state
            FROM (SELECT *, coalesce(response_status BETWEEN 200 AND 599, false) AS is_status FROM pg_temp.idempotency_seed) AS s
        ) AS s
        ORDER BY created_at
    ) AS s;
    RAISE NOTICE '% records were taken over', (SELECT count(*) FROM idempotency_keys);
END $seed$;
