-- In the commit at whose end a table's columns change: the epochs up to here keep theirs.
INSERT INTO past_schemas (relation, version, upto, schema, origin)
SELECT id, schema_version, %(epoch)s, schema, origin FROM relations
WHERE id = %(relation)s AND schema_version = %(version)s - 1
