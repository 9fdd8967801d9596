-- When a relation is read: everything listed now.
SELECT id, kind, after_epoch, epoch, path, rows, bytes, unknown_rows
FROM files WHERE relation = %(relation)s AND unlisted_at IS NULL
ORDER BY epoch, id
