-- Run by the prepare step, after the publication is made.
SELECT (s.lsn - '0/0'::pg_lsn)::int8 AS lsn
FROM pg_create_logical_replication_slot(%(slot)s, 'pgoutput') AS s;
