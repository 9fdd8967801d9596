-- Run when a table has no key: its indexes that could be one.
SELECT x.relname AS name
FROM pg_index AS i
JOIN pg_class AS x ON x.oid = i.indexrelid
WHERE i.indrelid = %(oid)s
  AND i.indisunique AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND i.indexprs IS NULL
  AND NOT EXISTS (
    SELECT
    FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)
    JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE k.place <= i.indnkeyatts AND NOT a.attnotnull
  )
ORDER BY x.relname;
