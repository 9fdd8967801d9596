-- Run when a table is bound: what kind of table it is and whether it can be read whole.
SELECT
  c.oid::int8 AS oid,
  c.relkind::text AS relkind,
  c.relpersistence::text AS persistence,
  c.relreplident::text AS identity,
  c.relrowsecurity AS rowsecurity,
  row_security_active(c.oid) AS rows_hidden,
  has_schema_privilege(n.oid, 'USAGE') AS may_use_schema,
  c.reltuples::float8 AS reltuples
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND c.relkind IN ('r', 'p', 'v', 'm', 'f');
