-- By whoever deletes the files of a relation that was taken down.
SELECT id, path FROM files WHERE relation = %(relation)s AND removed_at IS NULL ORDER BY id
