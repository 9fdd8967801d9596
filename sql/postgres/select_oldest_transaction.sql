-- Run again and again until every transaction older than our mark has ended.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8 AS xmin;
