-- When the publication holds a dropped table no more, or for another's sake.
UPDATE relations SET unpublished_at = clock_timestamp()
WHERE id = %(relation)s AND unpublished_at IS NULL
