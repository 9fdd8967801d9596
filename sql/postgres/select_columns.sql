-- Run when a table is bound: its columns in their order; a domain's with the type it is made of.
SELECT
  a.attname AS name,
  a.attnum::int4 AS attnum,
  a.atttypid::int8 AS type_oid,
  a.atttypmod AS modifier,
  base.oid::int8 AS base_oid,
  base.modifier AS base_modifier,
  format_type(a.atttypid, a.atttypmod) AS type,
  CASE element.oid IS NULL
    WHEN true THEN
      CASE space.nspname WHEN 'pg_catalog' THEN t.typname::text
        ELSE quote_ident(space.nspname) || '.' || quote_ident(t.typname) END
    ELSE
      CASE element_space.nspname WHEN 'pg_catalog' THEN element.typname::text
        ELSE quote_ident(element_space.nspname) || '.' || quote_ident(element.typname) END || '[]'
  END AS type_name,
  -- What these send in binary is the text.
  coalesce(language.lanname = 'internal' AND send.prosrc IN (
    'textsend', 'varcharsend', 'bpcharsend', 'namesend', 'enum_send', 'json_send', 'xml_send'
  ), false) AS sends_text,
  NOT a.attnotnull AS nullable,
  a.attgenerated::text AS generated,
  has_column_privilege(a.attrelid, a.attnum, 'SELECT') AS may_select
FROM pg_attribute AS a
CROSS JOIN LATERAL (
  WITH RECURSIVE made_of (oid, modifier, depth) AS (
    SELECT a.atttypid, a.atttypmod, 0
    UNION ALL
    SELECT d.typbasetype, d.typtypmod, m.depth + 1
    FROM made_of AS m
    JOIN pg_type AS d ON d.oid = m.oid AND d.typtype = 'd'
  )
  SELECT m.oid, m.modifier FROM made_of AS m ORDER BY m.depth DESC LIMIT 1
) AS base
JOIN pg_type AS t ON t.oid = base.oid
JOIN pg_namespace AS space ON space.oid = t.typnamespace
LEFT JOIN pg_proc AS send ON send.oid = t.typsend
LEFT JOIN pg_language AS language ON language.oid = send.prolang
LEFT JOIN pg_type AS element ON element.typarray = t.oid
LEFT JOIN pg_namespace AS element_space ON element_space.oid = element.typnamespace
WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;
