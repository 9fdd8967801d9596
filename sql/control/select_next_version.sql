-- When a version is made: its number; one that was used is never used again.
SELECT coalesce(max(version), 0) + 1 AS version FROM relations
WHERE pipeline = %(pipeline)s AND name = %(name)s
