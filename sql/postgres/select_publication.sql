-- Run before the publication is made or widened: what it publishes.
SELECT
  p.oid::int8 AS oid,
  p.puballtables AS all_tables,
  p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate AS publishes_all,
  p.pubviaroot AS via_root
FROM pg_publication AS p
WHERE p.pubname = %(publication)s;
