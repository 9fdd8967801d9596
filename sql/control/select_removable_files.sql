-- The collector: files no reader can still be using. A pin was taken when its owner looked at what
-- is listed: it holds what has been unlisted since.
SELECT files.id, files.path FROM files JOIN relations ON relations.id = files.relation
WHERE relations.pipeline = %(pipeline)s AND files.removed_at IS NULL AND files.kind = 'log'
    AND files.unlisted_at < clock_timestamp() - make_interval(secs => %(grace_seconds)s)
    AND NOT EXISTS (
        SELECT FROM pins
        WHERE pins.relation = files.relation AND pins.taken_at <= files.unlisted_at
            AND (pins.expires_at IS NULL OR pins.expires_at > clock_timestamp())
    )
