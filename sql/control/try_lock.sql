-- When a lock among all users of the store is wanted; asked again until it is had.
SELECT pg_try_advisory_lock(hashtextextended(%(name)s, 0)) AS had
