-- Run when a backfill starts: the types of the key's columns, a domain's being what it is over.
WITH RECURSIVE types AS (
  SELECT k.place, k.name, a.atttypid AS oid, a.attcollation AS collation
  FROM unnest(%(names)s::text[]) WITH ORDINALITY AS k (name, place)
  JOIN pg_attribute AS a ON a.attname = k.name
  WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT t.place, t.name, d.typbasetype, t.collation
  FROM types AS t
  JOIN pg_type AS d ON d.oid = t.oid
  WHERE d.typtype = 'd'
)
SELECT
  t.name,
  n.nspname AS type_schema,
  p.typname AS type_name,
  -- (Of other collatable types, as char(n) and citext, the collation is not all there is to it.)
  t.collation = 0 OR n.nspname = 'pg_catalog' AND p.typname IN ('text', 'varchar') AND CASE
    -- The built-in provider (since version 17) compares by code point, as do C and POSIX.
    coalesce(nullif(c.collprovider::text, 'd'), to_jsonb(d) ->> 'datlocprovider', 'c')
    WHEN 'b' THEN true
    WHEN 'c' THEN
      CASE WHEN c.collprovider = 'd' THEN d.datcollate ELSE c.collcollate END IN ('C', 'POSIX')
    ELSE false
  END AS bytewise
FROM types AS t
JOIN pg_type AS p ON p.oid = t.oid AND p.typtype <> 'd'
JOIN pg_namespace AS n ON n.oid = p.typnamespace
JOIN pg_database AS d ON d.datname = current_database()
LEFT JOIN pg_collation AS c ON c.oid = t.collation
ORDER BY t.place;
