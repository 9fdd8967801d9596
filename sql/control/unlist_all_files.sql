-- When a relation is taken down; the bytes live on for a while.
UPDATE files SET unlisted_at = clock_timestamp()
WHERE relation = %(relation)s AND unlisted_at IS NULL
