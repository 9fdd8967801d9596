-- Run while older transactions are awaited: whose they are, the oldest first.
SELECT
  'pid ' || a.pid || ', user ' || coalesce(a.usename, '?')
  || ', database ' || coalesce(a.datname, '?')
  || coalesce(', application ' || nullif(a.application_name, ''), '')
  || ', ' || coalesce(a.state, 'running')
  || ', open for ' || round(extract(epoch FROM clock_timestamp() - a.xact_start))::text
  || ' s' AS who
FROM pg_stat_activity AS a
WHERE a.backend_xid IS NOT NULL
  AND a.pid <> pg_backend_pid()
  AND age(a.backend_xid) > age(%(xid)s::text::xid8::xid)
UNION ALL
SELECT
  'prepared transaction ' || quote_literal(p.gid) || ', user ' || p.owner
  || ', database ' || p.database
  || ', since ' || to_char(p.prepared AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM pg_prepared_xacts AS p
WHERE age(p.transaction) > age(%(xid)s::text::xid8::xid);
