-- Run when the stream says that a table's columns changed: what the rows of before have is told too.
SELECT
  a.attnum::int4 AS attnum,
  CASE WHEN a.atthasmissing THEN (a.attmissingval::text::text[])[1] END AS missing,
  -- A default that is computed row by row writes the table anew, with no event.
  NOT a.atthasmissing AND (a.atthasdef OR a.attidentity <> '' OR a.attgenerated <> '') AS computed
FROM pg_attribute AS a
WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped;
