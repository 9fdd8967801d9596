-- When nothing was found of a relation long after it was taken down.
UPDATE relations SET removed_at = clock_timestamp()
WHERE id = %(relation)s AND removed_at IS NULL
    AND ended_at <= clock_timestamp() - make_interval(secs => %(grace_seconds)s)
