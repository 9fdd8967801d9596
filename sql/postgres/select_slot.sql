-- Run by the prepare step, at each start and by the slot watch: where the slot stands.
SELECT
  s.slot_name AS name,
  s.slot_type AS kind,
  s.plugin,
  s.database,
  s.temporary,
  s.active,
  s.active_pid,
  s.wal_status,
  s.safe_wal_size::int8 AS safe_wal_bytes,
  (s.confirmed_flush_lsn - '0/0'::pg_lsn)::int8 AS confirmed_flush_lsn,
  (s.restart_lsn - '0/0'::pg_lsn)::int8 AS restart_lsn,
  (
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END
    - s.restart_lsn
  )::int8 AS retained_bytes
FROM pg_replication_slots AS s
WHERE s.slot_name = %(slot)s;
