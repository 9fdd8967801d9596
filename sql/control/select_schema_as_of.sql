-- When a table is read as of an epoch before its columns changed; none if they are what they were.
SELECT version AS schema_version, schema, origin FROM past_schemas
WHERE relation = %(relation)s AND upto >= %(epoch)s ORDER BY upto LIMIT 1
