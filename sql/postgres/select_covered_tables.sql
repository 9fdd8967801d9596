-- Run before the publication is widened: all it covers, also by schema or as ALL TABLES.
SELECT t.schemaname AS schema, t.tablename AS table
FROM pg_publication_tables AS t
WHERE t.pubname = %(publication)s;
