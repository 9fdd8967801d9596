-- Run at each start: is this the server, and the history, that was seen before?
SELECT
  s.system_identifier::text AS system_identifier,
  CASE
    WHEN pg_is_in_recovery() THEN (SELECT c.timeline_id FROM pg_control_checkpoint() AS c)
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int4
  END AS timeline
FROM pg_control_system() AS s;
