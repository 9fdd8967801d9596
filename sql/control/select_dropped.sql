-- By whoever deletes the files of what was taken down.
SELECT id, path FROM relations
WHERE pipeline = %(pipeline)s AND role = 'old' AND state = 'Dropped' AND removed_at IS NULL
    AND ended_at <= clock_timestamp() - make_interval(secs => %(grace_seconds)s)
ORDER BY id
