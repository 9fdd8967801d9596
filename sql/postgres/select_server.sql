-- Run once before a source is prepared, and by `tidegate doctor`: is the server set up right?
SELECT
  current_setting('server_version_num')::int4 AS version,
  current_setting('wal_level') AS wal_level,
  current_user AS username,
  current_database() AS database,
  pg_is_in_recovery() AS is_standby,
  pg_encoding_to_char(d.encoding) AS encoding,
  r.rolsuper OR r.rolreplication OR EXISTS (
    SELECT FROM pg_roles AS managed
    WHERE managed.rolname = 'rds_replication'
      AND pg_has_role(managed.oid, 'MEMBER')
  ) AS may_replicate,
  current_setting('max_replication_slots')::int4 AS max_slots,
  (SELECT count(*) FROM pg_replication_slots)::int4 AS used_slots,
  current_setting('max_wal_senders')::int4 AS max_senders
FROM pg_roles AS r, pg_database AS d
WHERE r.rolname = current_user AND d.datname = current_database();
