-- Run before the publication is widened: its tables, and whether it shows only parts of them.
-- (to_jsonb, since row filters and column lists came with version 15.)
SELECT
  n.nspname AS schema,
  c.relname AS table,
  to_jsonb(r) ->> 'prqual' IS NOT NULL AS has_filter,
  to_jsonb(r) ->> 'prattrs' IS NOT NULL AS has_column_list
FROM pg_publication_rel AS r
JOIN pg_class AS c ON c.oid = r.prrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE r.prpubid = %(oid)s;
