-- Run once when a table's splits are planned: rows per page when last analysed, times pages now.
SELECT
  CASE
    WHEN c.reltuples > 0 AND c.relpages > 0 THEN
      (c.reltuples / c.relpages
        * (pg_relation_size(c.oid) / current_setting('block_size')::int8))::int8
  END AS rows
FROM pg_class AS c
WHERE c.oid = %(oid)s;
