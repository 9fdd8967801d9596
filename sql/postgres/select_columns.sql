-- Run when a table is bound: its columns in their order.
SELECT
  a.attname AS name,
  a.attnum::int4 AS attnum,
  a.atttypid::int8 AS type_oid,
  format_type(a.atttypid, a.atttypmod) AS type,
  a.atttypmod AS modifier,
  NOT a.attnotnull AS nullable,
  a.attgenerated::text AS generated,
  has_column_privilege(a.attrelid, a.attnum, 'SELECT') AS may_select
FROM pg_attribute AS a
WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;
