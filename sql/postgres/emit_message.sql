-- Run after the reads of a tick: a mark that the stream will carry after all they could see.
SELECT (pg_logical_emit_message(true, %(prefix)s, %(content)s::text) - '0/0'::pg_lsn)::int8 AS lsn;
