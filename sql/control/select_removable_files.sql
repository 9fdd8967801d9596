-- The collector: files no reader can still be using.
SELECT files.id, files.path FROM files JOIN relations ON relations.id = files.relation
WHERE relations.pipeline = %(pipeline)s AND files.removed_at IS NULL AND files.kind = 'log'
    AND files.unlisted_at < clock_timestamp() - make_interval(secs => %(grace_seconds)s)
