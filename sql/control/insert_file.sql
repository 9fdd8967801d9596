-- In a commit: the file is part of the relation from here on.
INSERT INTO files (
    relation, attempt, kind, after_epoch, epoch, path, rows, bytes, unknown_rows, hole_rows,
    truncates, key_ranges, schema_version
)
VALUES (
    %(relation)s, %(attempt)s, %(kind)s, %(after_epoch)s, %(epoch)s, %(path)s, %(rows)s, %(bytes)s,
    %(unknown_rows)s, %(hole_rows)s, %(truncates)s, %(key_ranges)s::jsonb,
    %(schema_version)s
)
