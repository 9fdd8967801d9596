-- Run before a table is sampled: how large it is.
SELECT (pg_relation_size(%(oid)s::oid) / current_setting('block_size')::int8)::int8 AS blocks;
