-- When the owner of a lock is done.
SELECT pg_advisory_unlock(hashtextextended(%(name)s, 0))
