-- In what way a table under the name is not one of the code that oncekey grew from; NULL if in none.
(SELECT string_agg(CASE WHEN relkind IS NOT NULL THEN 'it is no plain table'
        WHEN present IS NULL THEN 'it has no column ' || wanted
        WHEN needed IS NULL THEN 'of its column ' || present || ' nothing is known'
        ELSE 'its column ' || present || ' is ' || type || ', not ' || types[1] END, '; ' ORDER BY wanted, present)
 FROM (SELECT NULL::text AS relkind, wanted, present, type, types, needed
       FROM (VALUES ('id', NULL, false),
                    ('account_id', '{text,character varying}'::text[], true),
                    ('idempotency_key', '{text,character varying}', true),
                    ('request_hash', '{text,character varying,character}', true),
                    ('status', '{text,character varying}', true),
                    ('response_status', '{integer,smallint,bigint}', true),
                    ('response_body', '{jsonb,json}', true),
                    ('created_at', '{timestamp with time zone}', true),
                    ('updated_at', '{timestamp with time zone}', false),
                    ('expires_at', '{timestamp with time zone}', true)) AS columns (wanted, types, needed)
       FULL JOIN (SELECT attname::text AS present, format_type(atttypid, NULL) AS type,
                         CASE WHEN attname = 'status_code' AND NOT EXISTS (
                             SELECT FROM pg_attribute AS other WHERE other.attrelid = a.attrelid
                                 AND other.attname = 'response_status' AND NOT other.attisdropped)
                         THEN 'response_status' ELSE attname::text END AS wanted
                  FROM pg_attribute AS a
                  WHERE attrelid = to_regclass('idempotency_keys') AND attnum > 0 AND NOT attisdropped) AS there USING (wanted)
       UNION ALL
       SELECT relkind::text, NULL, NULL, NULL, NULL, true FROM pg_class
       WHERE oid = to_regclass('idempotency_keys') AND (relkind <> 'r' OR relispartition OR relhassubclass)) AS shape
 WHERE relkind IS NOT NULL OR (present IS NULL AND needed) OR type <> ALL (types)
     OR needed IS NULL)
