-- Run when a table is bound: the columns that identify a row in the stream, in the index's order.
SELECT a.attname AS name
FROM pg_class AS c
JOIN pg_index AS i ON i.indrelid = c.oid
CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.attnum
WHERE c.oid = %(oid)s
  AND k.place <= i.indnkeyatts
  AND i.indisvalid
  AND i.indimmediate
  AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
ORDER BY k.place;
